"""Events of any kind become a page, and what the page shows is true."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import pytest
from hypothesis import given, settings, strategies as st

from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.page.fill import TEMPLATES, _templates, fill
from ma_boot.reporting.page.lanes import MOST_TICKS, ticks
from ma_boot.reporting.page.language import Text
from ma_boot.reporting.timeline.events import read_events
from ma_boot.reporting.timeline.job_timeline import CAUSE, STOPPED, UNKNOWN, WELL, Timeline
from ma_boot.reporting.timeline.merge import timeline_of
from tests.synthetic import Writer, synthetic_job

LIMIT = 2_000_000
PAGE = TEMPLATES.parent


def same(text: str) -> str:
    return text


def line_of(*files: str) -> Timeline:
    return timeline_of([read_events(file, same) for file in files])


def page_of(*files: str, tails: Optional[Dict[str, str]] = None) -> str:
    return page_text(line_of(*files), tails or {})


class Elements(HTMLParser):
    """The tags of a page; fails if they are not balanced, which is what a missing escape leads to."""

    OPEN = frozenset({"meta", "link", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: List[str] = []
        self.found: List[Tuple[str, Dict[str, Optional[str]]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.OPEN:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPEN:
            assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def headline(page: str, language: str = "en") -> str:
    heading = re.search(r"<h1>(.*?)</h1>", page)
    assert heading is not None
    text = re.search(rf'<span class="{language}"[^>]*>(.*?)</span>', heading.group(1))
    return text.group(1) if text else heading.group(1)


def test_every_template_is_used_and_what_is_filled_in_is_escaped() -> None:
    used = set(re.findall(r'fill\(\s*"([a-z-]+)"', "".join(map(Path.read_text, PAGE.glob("*.py")))))
    assert used == set(_templates())
    assert fill("hint", hint="<&'\">") == "<li>&lt;&amp;&#x27;&quot;&gt;</li>"
    assert fill("hint", hint=fill("hint", hint="<")) == "<li><li>&lt;</li></li>"
    assert "&lt;en" in fill("hint", hint=Text("<en", "zh>"))
    assert "zh&gt;" in fill("hint", hint=Text("<en", "zh>"))
    with pytest.raises(KeyError):
        fill("hint", hnt="x")


def test_a_failure_is_caused_by_the_first_process_that_failed_on_its_own() -> None:
    line = line_of(*synthetic_job(2, 8, fails=11))
    assert (line.outcome.exit_code, line.outcome.node, line.outcome.by) == (137, 1, "training")
    parts = {life.label: life.role for _, life in line.last_processes()}
    assert parts.pop("rank 11") == CAUSE
    assert set(parts.values()) == {STOPPED}
    page = page_text(line, {"/log/proc-rank-11.txt": "step 1\nTraceback <b>"})
    assert headline(page).startswith("Rank 11 on node 1 failed first: it was killed by SIGKILL after")
    assert headline(page, "zh").startswith("rank 11（节点 1）最先失败")
    assert "Traceback &lt;b&gt;" in page


def test_a_job_that_succeeded() -> None:
    page = page_of(*synthetic_job(2, 8))
    assert headline(page) == "The job succeeded: all 16 processes ended with exit code 0."
    assert "exit code 0" in page


def test_the_page_of_one_node_does_not_speak_for_the_job() -> None:
    page = page_of(synthetic_job(2, 8)[1])
    assert headline(page) == "Node 1 succeeded: all 8 processes ended with exit code 0."
    assert "The events of these nodes are missing: 0." in page


def test_the_times_are_those_of_the_events() -> None:
    line = line_of(*synthetic_job(1, 2))
    phases = {phase.name: phase for phase in line.nodes[0].runs[0].phases}
    assert phases["environment"].start == pytest.approx(0.1, abs=1e-5)
    assert phases["environment"].end == pytest.approx(3.1, abs=1e-5)
    (_, life), *_ = line.last_processes()
    assert life.first_output is not None
    assert 8 <= life.first_output - life.start <= 14.001
    assert line.seconds > 600
    assert line.began == 1_760_000_000.0


def test_setting_the_wall_clock_does_not_stretch_the_timeline() -> None:
    entries = [json.loads(line) for line in synthetic_job(1, 2)[0].splitlines()]
    moved = [{**e, "time": e["time"] + 7200} if number > 5 else e for number, e in enumerate(entries)]
    assert line_of("\n".join(map(json.dumps, moved))).seconds < 700


def test_a_stopped_node_with_a_slow_clock_is_not_the_cause() -> None:
    stopped, failed = synthetic_job(2, 8, fails=11)
    entries = [json.loads(line) for line in stopped.splitlines()]
    behind = "\n".join(json.dumps({**entry, "time": entry["time"] - 60}) for entry in entries)
    assert line_of(behind, failed).outcome.node == 1


def test_nodes_with_different_monotonic_clocks_share_one_scale() -> None:
    first, second = line_of(*synthetic_job(2, 1)).nodes
    assert first.runs[0].begin == second.runs[0].begin == 0


def test_a_second_run_in_the_same_container_is_drawn_after_the_first() -> None:
    first, second = Writer(0, 10**12), Writer(0, 10**12)
    for writer, begin, code in ((first, 0.0, 1), (second, 60.0, 0)):
        writer.phase("job", begin, begin + 1)
        writer.at(begin + 2, "start", label="rank 0", rank=0, log_file="x")
        writer.at(begin + 9, "exit", label="rank 0", rank=0, code=code, stopped=False)
        writer.at(begin + 10, "end", exit_code=code, by="training" if code else None, label="rank 0")
    line = line_of(first.text() + second.text())
    assert [start.exit_code for start in line.nodes[0].runs] == [1, 0]
    assert line.outcome.exit_code == 0
    assert [life.role for _, life in line.last_processes()] == [WELL]
    assert "reruns of the boot command" in page_text(line, {})


def test_a_job_that_was_scheduled_before_says_how_often() -> None:
    writer = Writer(0, 10**12)
    writer.at(0, "job", name="job", nodes=1, schedule_count=3)
    assert "times scheduled" in page_text(line_of(writer.text()), {})
    again = Writer(0, 10**12)
    again.at(0, "job", name="job", nodes=1, schedule_count=1)
    assert "times scheduled" not in page_text(line_of(again.text()), {})


def test_a_run_of_yesterday_is_counted_but_not_drawn() -> None:
    old, new = Writer(0, 10**12), Writer(0, 10**12)
    old.phase("job", 0, 1)
    new.phase("job", 90_000, 90_001)
    line = line_of(old.text() + new.text())
    assert (len(line.nodes[0].runs), line.earlier_runs) == (1, 1)
    assert line.seconds < 10


def test_a_later_attempt_is_drawn_on_the_same_row() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    for attempt, code in enumerate((1, 0)):
        node.at(10 * attempt + 2, "start", label="rank 0", rank=0, log_file="x")
        node.at(10 * attempt + 9, "exit", label="rank 0", rank=0, code=code, stopped=False)
        if code:
            node.at(10, "restart", attempt=2, reason="rank 0 ended with exit code 1")
    node.at(20, "end", exit_code=0)
    line = line_of(node.text())
    assert [life.code for life in line.nodes[0].runs[0].processes] == [1, 0]
    page = page_text(line, {})
    assert "process restarts" in page
    assert "rank 0 ended with exit code 1" in page
    assert len(re.findall("<g><title>rank 0", page)) == 2


def test_a_node_without_an_end_is_named() -> None:
    files = synthetic_job(3, 2)
    torn = files[1][: files[1].rindex('"kind": "exit"')]  # ma_boot was killed there
    page = page_of(files[0], torn, files[2])
    assert (
        headline(page)
        == "How the job ended is unknown: node 1 recorded no end (still running, killed or lost)."
    )
    assert "Unreadable lines of events: 1." in page
    parts = [life.role for node, life in line_of(torn).last_processes()]
    assert UNKNOWN in parts


def test_a_lost_node_is_named_though_the_others_were_stopped() -> None:
    files = synthetic_job(2, 2, fails=3)
    lost = files[1][: files[1].index('"kind": "exit"')]
    assert headline(page_of(files[0], lost)).endswith("by SIGTERM from outside; node 1 recorded no end.")


def test_a_hang_names_the_processes_that_hung() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(2, "hang", labels=["rank 3", "rank 4"])
    node.at(3, "end", exit_code=124, by="ma_boot", cause="rank 3, rank 4 hung")
    assert headline(page_of(node.text())) == "Rank 3, rank 4 on node 0 hung."


def test_the_rehearsal_has_the_last_word() -> None:
    files = synthetic_job(2, 2)
    lost = files[1][: files[1].index('"kind": "exit"')]
    end = {"time": 1_760_000_700.0, "monotonic_ns": 10**13, "kind": "job-end", "exit_code": 137, "by": "node"}
    job = json.dumps({**end, "label": "node 1", "cause": "node 1 was killed by SIGKILL", "node": None})
    assert headline(page_of(files[0], lost, job)) == "Node 1 failed first, with exit code 137."


@pytest.mark.parametrize("shape", [(1, 1), (2, 8), (16, 8), (64, 8), (32, 16), (512, 1)])
def test_a_page_is_small_and_has_every_node(shape: Tuple[int, int]) -> None:
    nodes, per_node = shape
    files = synthetic_job(nodes, per_node, fails=nodes * per_node - 1)
    tails = {f"/log/proc-rank-{rank}.txt": "step <1>\n" * 600 for rank in range(512)}
    page = page_of(*files, tails=tails)
    assert len(page.encode()) < LIMIT
    drawn = re.findall(r"<b[^>]*>(\d+)</b>", page)
    assert drawn == [str(number) for number in range(nodes)]
    assert len(re.findall("<g><title>rank ", page)) == nodes * per_node
    Elements(page)


def test_the_page_loads_nothing() -> None:
    page = page_of(*synthetic_job(2, 8))
    for tag, attributes in Elements(page).found:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "http" not in page.replace("http-equiv", "")


HOSTILE = "</script><script>alert(1)</script>'\"><img src=x onerror=alert(2)>\x00\ud800&lt;"


def test_content_from_outside_is_escaped() -> None:
    node = Writer(0, 10**12)
    node.at(0, "job", name=HOSTILE, nodes=1, host=HOSTILE)
    node.phase(HOSTILE, 1, 2, HOSTILE, HOSTILE)
    node.at(3, "start", label=HOSTILE, rank=None, log_file=HOSTILE)
    node.at(4, "exit", label=HOSTILE, code=1, stopped=False, oom=HOSTILE)
    node.at(4, "fault", target=HOSTILE, fault=HOSTILE)
    node.at(5, "transfer", direction=HOSTILE, files=1, bytes=1, seconds=1)
    node.at(6, "end", exit_code=1, by="training", label=HOSTILE, cause=HOSTILE)
    line = line_of(node.text())
    log_file = next(life.log_file for _, life in line.last_processes())
    page = page_text(line, {log_file: HOSTILE})
    elements = Elements(page)
    assert not {"img", "b onerror"} & {tag for tag, _ in elements.found}
    assert sum(tag == "script" for tag, _ in elements.found) == 2
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes)
    page.encode("utf-8")


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


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.tuples(st.lists(LINE, max_size=25), st.integers(0, 30)), max_size=3))
def test_whatever_the_events_are_there_is_a_page(files: List[Tuple[List[str], int]]) -> None:
    texts = ["\n".join(lines)[: -torn or None] for lines, torn in files]
    line = line_of(*texts)
    page = page_text(line, {life.log_file: "last words" for _, life in line.last_processes()})
    Elements(page)
    assert len(page.encode("utf-8")) < LIMIT
    assert "NaN" not in page.replace("&quot;", "")
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
        files.append(node.text())
    line = line_of(*files)
    page = page_text(line, {life.log_file: long for _, life in line.last_processes()})
    assert len(page.encode()) < LIMIT


@given(st.floats(1e-3, 1e9))
def test_an_axis_has_few_moments_and_begins_at_0(seconds: float) -> None:
    step, moments = ticks(seconds)
    assert 1 <= len(moments) <= MOST_TICKS + 1
    assert moments[0][1] == "0"
    assert moments[-1][0] <= seconds * 1.001
    assert step > 0


def test_secrets_are_masked_in_everything_that_is_read() -> None:
    node = Writer(0, 10**12)
    node.at(0, "start", label="SECRET", rank=0, log_file="SECRET")
    node.at(1, "end", exit_code=1, cause="SECRET", unknown=["SECRET", ["SECRET"]])
    found = read_events(node.text(), lambda text: text.replace("SECRET", "***"))
    assert "SECRET" not in json.dumps(found.events)
