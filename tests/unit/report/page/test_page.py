"""Events of any kind become a page, and what the page shows is true."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from jinja2 import UndefinedError

from ma_boot.report.page.compose import page_text
from ma_boot.report.page.lanes import MOST_LANES, MOST_TICKS, ticks
from ma_boot.report.page.language import Text
from ma_boot.report.page.read import page_of
from ma_boot.report.page.template import page_template
from ma_boot.report.timeline.events import printable, read_events
from tests.synthetic import Writer, synthetic_job
from tests.unit.report.page.seen import line_of

# Bytes; the jobs here are the worst ones, an ordinary page has less than 1 MB.
LIMIT = 6_000_000


class Elements(HTMLParser):
    """The tags of a page; fails if they are not balanced, which is what a missing escape leads to."""

    OPEN = frozenset({"meta", "link", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.OPEN:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPEN:
            assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_text_in_two_languages_is_escaped_in_both() -> None:
    assert Text("<en", "zh>").__html__() == (
        '<span class="en">&lt;en</span><span class="zh" lang="zh-CN">zh&gt;</span>'
    )
    assert Text("<", "<").__html__() == "&lt;"
    filled = Text("{who} ended", "{who}结束").filled(who=Text("it", "它"))
    assert filled == Text("it ended", "它结束")


def test_a_value_that_the_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        page_template().render(title="x")


@pytest.mark.parametrize("shape", [(1, 1), (2, 8), (16, 8), (64, 8), (32, 16), (512, 1)])
def test_a_page_is_small_and_has_every_node(shape: tuple[int, int]) -> None:
    nodes, per_node = shape
    files = synthetic_job(nodes, per_node, fails=nodes * per_node - 1)
    tails = {f"/log/proc-rank-{rank}.txt": "step <1>\n" * 600 for rank in range(512)}
    page = page_text(line_of(*files), tails)
    assert len(page.encode()) < LIMIT
    drawn = re.findall(r"<b[^>]*>(\d+)</b>", page)
    assert len(drawn) == min(nodes, MOST_LANES)
    assert str(nodes - 1) in drawn, "the node that failed"
    assert len(re.findall("<g><title>rank ", page)) == len(drawn) * per_node
    Elements(page)


@pytest.mark.invariant("The page loads nothing and works without its script")
def test_the_page_loads_nothing() -> None:
    page = page_text(line_of(*synthetic_job(2, 8)), {})
    for tag, attributes in Elements(page).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "http" not in page.replace("http-equiv", "")


HOSTILE = "</script><script>alert(1)</script>'\"><img src=x onerror=alert(2)>\x00\ud800&lt;"


@pytest.mark.invariant("There is a page for any events, and text from outside is escaped")
def test_content_from_outside_is_escaped() -> None:
    node = Writer(0, 10**12)
    node.at(0, "job", name=HOSTILE, nodes=1, host=HOSTILE)
    node.phase(HOSTILE, 1, 2, HOSTILE, HOSTILE)
    node.at(3, "start", label=HOSTILE, rank=None, log_file=HOSTILE)
    node.at(4, "exit", label=HOSTILE, code=1, stopped=False, oom=HOSTILE)
    node.at(4, "fault", target=HOSTILE, fault=HOSTILE)
    node.at(5, "transfer", direction=HOSTILE, files=1, bytes=1, seconds=1)
    node.at(6, "end", exit_code=1, by="training", label=HOSTILE, cause=HOSTILE)
    line = line_of(node)
    log_file = next(life.log_file for _, life in line.last_processes())
    page = page_text(line, {log_file: HOSTILE})
    tags = Elements(page).tags
    assert not {"img", "b onerror"} & {tag for tag, _ in tags}
    assert sum(tag == "script" for tag, _ in tags) == 2
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    page.encode("utf-8")


MARKS = (
    "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2060\u2066\u2067\u2068\u2069\ufeff"
)


@pytest.mark.invariant("There is a page for any events, and text from outside is escaped")
def test_marks_of_direction_do_not_get_into_a_page_nor_its_line_for_the_terminal(tmp_path: Path) -> None:
    hidden = f"evil{MARKS}txt.exe"
    node = Writer(0, 10**12)
    node.at(0, "job", name=hidden, nodes=1, host=hidden, command=hidden, program=hidden)
    node.phase(hidden, 1, 2, "failed", hidden)
    log_file = tmp_path / f"rank{MARKS}.txt"
    log_file.write_text(f"printed {hidden}\n")
    node.at(3, "start", label=hidden, rank=None, log_file=str(log_file))
    node.at(4, "exit", label=hidden, code=1, stopped=False)
    node.at(5, "restart", attempt=2, reason=hidden)
    node.at(
        6, "stacks", folded=[{"ranks": [0], "stack": hidden}], suspect={"node": 0, "rank": 0, "why": hidden}
    )
    node.at(7, "end", exit_code=1, by="training", label=hidden, cause=hidden, words=f"ValueError: {hidden}")
    events = tmp_path / "j-events.jsonl"
    events.write_text(node.text())
    made = page_of([events], tmp_path / "report.html", own=True)
    shown = made.text + made.end + "".join(made.restarts)
    assert set(MARKS) & set(shown) == set()
    assert "ValueError: eviltxt.exe" in made.end
    emoji = "\U0001f468\u200d\U0001f469"
    assert printable(f"a\u200cb {emoji}") == f"a\u200cb {emoji}", "joiners belong to words"


KINDS = [
    "job", "phase-start", "phase-end", "start", "first-output", "exit", "progress", "transfer", "stop", "kill",
    "unkillable", "hang", "left-over", "dropped", "channel", "waiting", "restart", "fault", "end", "job-end", "new-kind",
    "checkpoint", "checkpoints", "restored", "metrics", "stacks", "slow rank", "loss not finite", "routes", "rehearsal", "job cause",
]  # fmt: skip
NAMES = [
    "time", "monotonic_ns", "node", "phase", "seconds", "outcome", "detail", "label", "rank", "code", "signal",
    "stopped", "oom", "log_file", "first_ns", "ended_ns", "direction", "files", "bytes", "bytes_done", "reason",
    "left", "labels", "pids", "lines", "exit_code", "by", "cause", "name", "nodes", "target", "fault", "host",
    "ranks", "cards", "host", "folded", "suspect", "inputs", "outputs", "command", "words", "step", "source", "published", "whole", "before", "age",
]  # fmt: skip
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.sampled_from(["job", "rank 0", "node 0", "run", "training", "node"]),
)  # fmt: skip
NESTED = LEAF | st.lists(LEAF, max_size=4) | st.dictionaries(st.text(), LEAF, max_size=3)
JSON = NESTED | st.lists(NESTED, max_size=3)
CLOCKS = st.fixed_dictionaries(
    {}, optional={"time": st.floats(1.7e9, 1.8e9), "monotonic_ns": st.integers(0, 10**15)}
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), JSON | st.integers(0, 9), max_size=9)
EVENT = st.builds(
    lambda kind, fields, clocks, node: {"kind": kind, **clocks, "node": node, **fields},
    st.sampled_from(KINDS), FIELDS, CLOCKS, st.integers(0, 3) | st.none(),
)  # fmt: skip
DEEP = st.just("[" * 100_000)
LINE = st.one_of(EVENT.map(json.dumps), JSON.map(json.dumps), st.text(max_size=40), DEEP)


@pytest.mark.invariant("There is a page for any events, and text from outside is escaped")
@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.tuples(st.lists(LINE, max_size=25), st.integers(0, 30)), max_size=3))
def test_any_events_make_a_page(files: list[tuple[list[str], int]]) -> None:
    texts = ["\n".join(lines)[: -torn or None] for lines, torn in files]
    line = line_of(*texts)
    page = page_text(line, {life.log_file: "last words" for _, life in line.last_processes()})
    Elements(page)
    assert len(page.encode("utf-8")) < LIMIT
    assert "NaN" not in page.replace("&#34;", "")
    assert "inf%" not in page


def test_the_longest_texts_do_not_make_a_large_page() -> None:
    long = '"' * 5000
    files = []
    for number in range(30):
        node = Writer(number, 10**12)
        for step in range(60):
            node.phase(f"{step}{long}", step, step + 1, long, long)
            node.at(step, "start", label=f"{step}{long}", rank=None, log_file=f"{number}.{step}")
            node.at(step, "exit", label=f"{step}{long}", code=step, stopped=False, oom=long)
            node.at(step, "fault", target=long, fault=f"{step}{long}")
            node.at(step, "transfer", direction=long, files=1, bytes=1, seconds=1)
        node.at(70, "end", exit_code=1, by="training", label=long, cause=long)
        files.append(node)
    line = line_of(*files)
    page = page_text(line, {life.log_file: long[:500] for _, life in line.last_processes()})
    assert len(page.encode()) < LIMIT


@given(st.floats(1e-3, 1e9))
def test_an_axis_has_few_moments_and_begins_at_0(seconds: float) -> None:
    step, moments = ticks(seconds)
    assert 1 <= len(moments) <= MOST_TICKS + 1
    assert moments[0][1] == "0"
    assert moments[-1][0] <= seconds * 1.001
    assert step > 0


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
def test_secrets_are_masked_in_everything_that_is_read() -> None:
    node = Writer(0, 10**12)
    node.at(0, "start", label="SECRET", rank=0, log_file="SECRET")
    node.at(1, "end", exit_code=1, cause="SECRET", unknown=["SECRET", ["SECRET"]])
    file = read_events(node.text(), lambda text: text.replace("SECRET", "***"))
    assert "SECRET" not in json.dumps(file.events)
