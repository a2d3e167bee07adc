"""The page's looks, in light and dark, and the few lines of script that it can do without. Pure."""

from __future__ import annotations

STYLE = """
:root{--bg:#fbfbfa;--card:#fff;--ink:#1f2328;--soft:#656d76;--line:#e4e6e9;--grid:#eceef0;
--good:#1a7f37;
--bad:#c4271b;--open:#8a6100;--goodbg:#eef7f0;--badbg:#fdf1ef;--openbg:#fdf7e7;--code:#f4f5f6;
--p0:#b9c0c9;--p1:#93a4b8;--p2:#5aa0c8;--p3:#a99bd6;--p4:#e0b354;--p5:#86b98d;--p6:#4fa8a0;--p9:#c9c4bd;
--w:#5f9e72;--c:#cf3b2e;--f:#e58a3c;--s:#a8afb8;--u:#d2c08a;--q:#d3e3d7;--onp:#14202b;
color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--card:#1b1f23;--ink:#e3e7eb;--soft:#98a1ab;
--line:#2e343a;
--grid:#262b30;--good:#5cc27a;--bad:#ff7b6e;--open:#e2b34d;--goodbg:#17251b;--badbg:#2c1a18;
--openbg:#2a2415;
--code:#111417;--p0:#5a636d;--p1:#63758a;--p2:#3d7da3;--p3:#7d70ad;--p4:#ab8434;--p5:#4f7f58;
--p6:#3a827b;
--p9:#5f5a53;--w:#5fa873;--c:#f0584a;--f:#e08a44;--s:#69717a;--u:#8a7a45;--q:#33463a;--onp:#f2f5f7}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","PingFang SC","Microsoft YaHei",
"Noto Sans CJK SC",sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 56px}
:root:not(:lang(zh)) .zh,:root:lang(zh) .en{display:none}
header{background:var(--badbg);border-left:4px solid var(--bad);border-radius:6px;
padding:18px 22px 16px}
header.good{background:var(--goodbg);border-color:var(--good)}
header.open{background:var(--openbg);border-color:var(--open)}
header .job{margin:0 0 6px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
h1{font-size:23px;line-height:1.3;font-weight:600;margin:0 0 10px;letter-spacing:-.01em;
overflow-wrap:anywhere}
h2{font-size:16px;font-weight:600;margin:34px 0 10px}
.code{margin:0;display:flex;flex-wrap:wrap;gap:4px 10px;align-items:baseline}
.code strong{color:var(--bad);font-variant-numeric:tabular-nums}
.good .code strong{color:var(--good)}.open .code strong{color:var(--open)}
.means{color:var(--soft)}
pre{background:var(--code);border:1px solid var(--line);border-radius:5px;margin:8px 0;
padding:10px 12px;
font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow:auto;
max-height:26em;tab-size:4}
pre.cause{white-space:pre-wrap;overflow-wrap:anywhere;background:none;border:0;padding:0;
margin:10px 0 0;max-height:16em}
header details{margin-top:12px}
.advice{margin-top:12px}.advice ul{margin:4px 0 0;padding-left:20px}
summary{cursor:pointer;padding:3px 0}summary:hover{color:var(--soft)}
.file{margin:6px 0 0;color:var(--soft);font-size:12px;overflow-wrap:anywhere}
.facts{display:flex;flex-wrap:wrap;gap:10px 34px;margin:20px 0 0}
.facts dt{color:var(--soft);font-size:12px}.facts dd{margin:0;font-variant-numeric:tabular-nums}
.notice{color:var(--soft);font-size:13px;margin:12px 0 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 12px;color:var(--soft);font-size:12px}
.legend b,td b,summary b{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.legend b.ms,.legend b.mr{width:0;height:12px;border-radius:0;border-left:2px dashed var(--soft);
vertical-align:-1px}
.legend b.mr{border-left:2px solid var(--p3)}
.legend b.mh,.legend b.mf,.legend b.mk{border-radius:50%}
.lanes{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:0 16px 8px}
.lane{display:grid;grid-template-columns:84px minmax(0,1fr);column-gap:10px;padding:7px 0;
border-top:1px solid var(--line);break-inside:avoid}
.nm b,.nm i{display:block;font-style:normal;font-size:12px;font-weight:600;line-height:1;
overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.nm b{padding-top:4px}.nm .hit{color:var(--bad)!important;font-weight:600!important}
.nm u{text-decoration:none}.nm u::before{content:"node "}:root:lang(zh) .nm u::before{content:"节点 "}
.chart .nm i{white-space:normal;line-height:1.3;margin-top:4px}
.nm i{font-weight:400;color:var(--soft);display:flex;align-items:center;font-size:11px}
.dr{position:relative;
background:repeating-linear-gradient(90deg,var(--grid) 0 1px,transparent 1px calc(var(--tick,
100000)*.001%))}
svg{display:block;width:100%;overflow:visible}
.phs{position:relative}
.ph{position:absolute;height:17px;border-radius:2px;overflow:hidden;color:var(--onp);font-size:11px;
line-height:17px;white-space:nowrap;min-width:2px}
.ph{container-type:inline-size}@container (max-width:34px){.ph>span{display:none}}
.ph>span{padding:0 5px}.ph em{font-style:normal;opacity:.7;font-variant-numeric:tabular-nums}
.ph.bad{box-shadow:inset 0 -3px var(--c)}.ph.cut{box-shadow:inset 0 -3px var(--s)}
path{fill:none;stroke-width:var(--bar,10px);vector-effect:non-scaling-stroke}
path[class^=z]{stroke-width:4px}
.z0{stroke:var(--p0)}.z1{stroke:var(--p1)}.z2{stroke:var(--p2)}.z3{stroke:var(--p3)}.z4{stroke:var(--p4)}
.z5{stroke:var(--p5)}.z6{stroke:var(--p6)}.z9{stroke:var(--p9)}.zx{stroke:var(--c)}
.p0{background:var(--p0);stroke:var(--p0)}.p1{background:var(--p1);stroke:var(--p1)}
.p2{background:var(--p2);stroke:var(--p2)}
.p3{background:var(--p3);stroke:var(--p3)}.p4{background:var(--p4);stroke:var(--p4)}
.p5{background:var(--p5);stroke:var(--p5)}
.p6{background:var(--p6);stroke:var(--p6)}.p9{background:var(--p9);stroke:var(--p9)}
b.px{background:none;border-bottom:3px solid var(--c);border-radius:0}
.lw{background:var(--w);stroke:var(--w)}.lc{background:var(--c);stroke:var(--c)}
.lf{background:var(--f);stroke:var(--f)}
.ls{background:var(--s);stroke:var(--s)}.lu{background:var(--u);stroke:var(--u)}
.q{background:var(--q);stroke:var(--q)}
path.lx,path.d{stroke:var(--c);stroke-width:13px;stroke-linecap:round}
.dense path.lx,.dense path.d{stroke-width:9px}
.mh{background:var(--f)}path.mh{stroke:var(--f)}.mf{background:var(--p3)}path.mf{stroke:var(--p3)}
.mk{background:var(--ink)}path.mk{stroke:var(--ink)}
path.ms,path.mr{stroke:var(--soft);stroke-width:1.5px;stroke-dasharray:3 3}
path.mr{stroke:var(--p3);stroke-width:2px;stroke-dasharray:none}
path.td{fill:var(--p2);stroke:none}path.tu{fill:var(--p6);stroke:none}
.axis{padding:8px 0 2px;border:0}.ax{position:relative;height:16px}
.ax i{position:absolute;font-style:normal;font-size:11px;color:var(--soft);line-height:16px;
padding-left:1px;white-space:nowrap;font-variant-numeric:tabular-nums}
.axes{position:sticky;top:0;background:var(--card);z-index:1;border-radius:6px 6px 0 0}
.many .axis+.axis{display:none}
.many .lane{grid-template-columns:58px minmax(0,1fr);padding:3px 0}.many .axis{padding:8px 0 2px}
.many .nm b{font-size:11px;font-weight:500;padding:0;line-height:13px}
.many .nm i{font-size:10px;line-height:13px}
@media(min-width:1000px){.many .nodes{columns:2;column-gap:28px}
.many .axes{display:grid;grid-template-columns:1fr 1fr;column-gap:28px}
.many .axis+.axis{display:grid}}
.scroll{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:500;font-size:12px}
th,td{padding:6px 18px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
td:last-child,th:last-child{padding-right:0}
.logs{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));column-gap:28px}
.logs details{border-bottom:1px solid var(--line);font-size:13px;min-width:0}
.logs details[open]{grid-column:1/-1}
#happened td:first-child,#processes td:nth-child(n+2),#transfers td{white-space:nowrap}
footer{margin-top:36px;color:var(--soft);font-size:12px;display:flex;justify-content:space-between;
gap:16px;flex-wrap:wrap}
footer button{font:inherit;color:inherit;background:none;border:0;padding:0;text-decoration:underline;
cursor:pointer}
@media(max-width:640px){main{padding:14px 12px 40px}h1{font-size:19px}header{padding:14px 16px}
.lanes{padding:0 10px 6px}.lane{grid-template-columns:62px minmax(0,1fr);column-gap:6px}
.ax i:nth-child(even){display:none}
.facts{gap:10px 24px}.chart .nm b{font-size:11px}}
@media print{.axes{position:static}details{display:block}pre{max-height:none}}
"""
CHOOSE_LANGUAGE = (
    "document.documentElement.lang=/^zh/i.test(navigator.language)?'zh-CN':'en'"  # before anything is painted
)
CHANGE_LANGUAGE = """
var page=document.documentElement,button=document.createElement('button');
button.type='button';button.id='language';
function name(){button.textContent=/^zh/.test(page.lang)?'English':'中文'}
button.onclick=function(){page.lang=/^zh/.test(page.lang)?'en':'zh-CN';name()};
name();document.querySelector('footer').appendChild(button);
"""
