"""The top of the page: how the job ended, why, and the job in numbers."""

from __future__ import annotations

import re
from typing import Callable

import pytest

from ma_boot.errors import ExitCode
from ma_boot.report.page.head import meaning, missing_nodes, node_list
from ma_boot.report.page.language import OUR_CODES, Text
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, node_with, processes, seen


def ended(**fields: object) -> Writer:
    node = node_with()
    node.at(2, "end", **fields)
    return node


def run_twice(written: Callable[[Writer, int], None]) -> str:
    """The second run begins 100 s after the first one."""
    text = ""
    for number in range(2):
        node = Writer(0, 10**12)
        node.at(100 * number, "phase-start", phase="job")
        written(node, number)
        text += node.text()
    return text


class TestHeadline:
    """End of the job in one sentence."""

    @pytest.mark.parametrize(
        ("end", "words", "means"),
        [
            ({"exit_code": 143, "by": "signal", "signal": 15}, "The job was stopped by SIGTERM from outside.", "128 + the number of the stop signal, SIGTERM"),
            ({"exit_code": 130, "by": "signal"}, "The job was stopped by Ctrl-C.", "128 + the number of the stop signal, SIGINT"),
            ({"exit_code": 5, "by": "training"}, "The job failed with exit code 5.", "the training's own"),
            ({"exit_code": 139, "by": "training"}, "The job failed with exit code 139.", "a shell or launcher uses this code for signal 11, SIGSEGV"),
            ({"exit_code": 66, "by": "ma_boot"}, "An input does not exist in OBS on node 0.", "of ma_boot"),
            ({"exit_code": 74, "by": "output"}, "The training succeeded, but an upload failed on node 0.", "of ma_boot"),
            ({"exit_code": 99, "by": "ma_boot"}, "The job failed with exit code 99.", "of ma_boot"),
            ({"exit_code": 124, "by": "ma_boot"}, "Processes hung or could not be killed on node 0.", "of ma_boot"),
        ],
    )  # fmt: skip
    def test_by_exit_code(self, end: dict[str, object], words: str, means: str) -> None:
        page = seen(ended(**end))
        assert page.headline == words
        meant = meaning(line_of(ended(**end)))
        assert meant is not None
        assert means in meant.en

    @pytest.mark.parametrize(
        ("end", "code", "title"),
        [
            ({"exit_code": 66, "by": "ma_boot"}, "exit code 66", "<title>ma_boot: exit code 66</title>"),
            (None, "no exit code", "<title>ma_boot: end unknown</title>"),
        ],
    )  # fmt: skip
    def test_the_page_has_the_exit_code_if_there_is_one(
        self, end: dict[str, object] | None, code: str, title: str
    ) -> None:
        page = seen(ended(**end) if end else node_with())
        assert title in page.page
        assert f"<strong>{code}</strong>" in page.english
        assert "Last output of" not in page.page

    def test_nodes_without_an_end_are_named_up_to_eight(self) -> None:
        for count, names in ((9, "0, 1, 2, 3, 4, 5, 6, 7…"), (8, "0, 1, 2, 3, 4, 5, 6, 7"), (2, "0, 1")):
            page = seen(*(node_with(number) for number in range(count)))
            assert f"nodes {names} recorded no end" in page.headline
        assert node_list(list(range(8))).en == "0, 1, 2, 3, 4, 5, 6, 7"
        assert node_list(list(range(9))) == Text(
            "0, 1, 2, 3, 4, 5, 6, 7 and 1 more", "0, 1, 2, 3, 4, 5, 6, 7 等 9 个"
        )

    def test_a_node_that_was_run_again_and_left_no_end_is_silent(self) -> None:
        def written(node: Writer, number: int) -> None:
            if number == 0:
                node.at(1, "end", exit_code=3, by="training")

        assert "node 0 recorded no end" in seen(run_twice(written)).headline

    @pytest.mark.parametrize(
        ("numbers", "words"), [([1], "Node 1 was stopped"), ([0, 1], "Nodes 0, 1 were stopped")]
    )
    def test_a_part_of_the_nodes_speaks_for_itself(self, numbers: list[int], words: str) -> None:
        nodes = [node_with(number) for number in numbers]
        for node in nodes:
            node.at(0, "job", name="j", nodes=3)
            node.at(2, "end", exit_code=143, by="signal", signal=15)
        assert seen(*nodes).headline.startswith(words)

    def test_a_hang_counts_only_if_it_was_the_end_and_then_the_last_one_of_that_node_and_run(self) -> None:
        node = node_with()
        node.at(1, "hang", labels=["rank 0"])
        node.at(2, "end", exit_code=66, by="ma_boot")
        assert seen(node).headline == "An input does not exist in OBS on node 0."

        def written(node: Writer, number: int) -> None:
            for rank in (2 * number, 2 * number + 1):
                node.at(100 * number + 1 + rank, "hang", labels=[f"rank {rank}"])
            node.at(100 * number + 9, "end", exit_code=124, by="ma_boot")

        other = node_with(1)
        other.at(120, "hang", labels=["rank 9"])
        other.at(130, "end", exit_code=143, by="signal", signal=15)
        assert seen(run_twice(written), other).headline == "Rank 3 on node 0 hung after 1 restart."

    def test_a_rehearsal_that_ended_by_its_training_names_no_node(self) -> None:
        job = '{"kind": "job-end", "exit_code": 7, "by": "training", "label": "node 1", "time": 9, "node": null}'
        assert seen(job + "\n").headline == "The job failed with exit code 7."

    @pytest.mark.parametrize(("number", "name"), [(64, "SIGRTMAX"), (65, "SIGTERM")])
    def test_the_signal_of_a_rehearsal_is_one_that_there_is(self, number: int, name: str) -> None:
        end = f'"exit_code": 143, "by": "signal", "signal": {number}, "time": 9, "node": null'
        assert (
            seen(f'{{"kind": "job-end", {end}}}\n').headline == f"The job was stopped by {name} from outside."
        )


def restarted(number: int, restarts: int) -> Writer:
    """A node whose ranks were restarted in place, and then succeeded."""
    node = node_with(number)
    who = {"label": f"rank {number}", "rank": number}
    node.at(2, "start", **who)
    node.at(90, "exit", **who, code=0, stopped=False)
    node.at(100, "end", exit_code=0)
    for attempt in range(restarts):
        node.at(3 + attempt, "restart", attempt=attempt + 2, reason=f"rank {number} failed")
    return node


def hung(*, signal: int = 2, suspect: bool = True) -> Writer:
    """A node that was stopped while two ranks hung; rank 1 is the suspect."""
    node = node_with()
    for rank in range(2):
        node.at(2, "start", label=f"rank {rank}", rank=rank)
    node.at(20, "hang", labels=["rank 0", "rank 1"])
    if suspect:
        node.at(21, "stacks", folded=[], suspect={"node": 0, "rank": 1, "why": "is in load (train.py:7)"})
    node.at(40, "end", exit_code=128 + signal, by="signal", signal=signal, cause="stopped")
    return node


class TestStory:
    """Restarts and hangs before the end are part of the headline, which has the exit code once."""

    @pytest.mark.parametrize(
        ("restarts", "words"), [(0, ""), (1, " after 1 restart"), (2, " after 2 restarts")]
    )
    def test_restarts_are_those_of_the_job_not_of_each_node(self, restarts: int, words: str) -> None:
        page = seen(restarted(0, restarts), restarted(1, restarts))
        assert page.headline == f"The job succeeded{words}: all 2 processes ended with exit code 0."
        assert page.facts.get("process restarts", "0") == str(restarts)

    def test_a_failure_tells_of_the_restarts_before_it(self) -> None:
        node = processes(1, code=3)
        node.at(3, "restart", attempt=2, reason="rank 0 failed")
        assert seen(node).headline.startswith("Rank 0 on node 0 failed first after 1 restart: it ended with")

    def test_reruns_of_the_boot_command_are_those_of_the_job(self) -> None:
        nodes = []
        for number in range(2):
            for run, code in enumerate((3, 0)):
                node = Writer(number, 10**12)
                node.phase("job", 100 * run, 100 * run + 1)
                node.at(100 * run + 9, "end", exit_code=code, by="training" if code else None)
                nodes.append(node)
        page = seen("".join(node.text() for node in nodes))
        assert page.headline == "The job succeeded after 1 restart: all 0 processes ended with exit code 0."
        assert page.facts["reruns of the boot command"] == "1"

    @pytest.mark.parametrize(
        ("node", "words", "chinese"),
        [
            (hung(), "by Ctrl-C while rank 1 hung", "在 rank 1 卡死期间，作业被 Ctrl-C 停止。"),
            (hung(suspect=False), "by Ctrl-C while rank 0, rank 1 hung", ""),
            (hung(signal=15), "by SIGTERM from outside while rank 1 hung", "在 rank 1 卡死期间，作业被外部信号 SIGTERM 停止。"),
        ],
    )  # fmt: skip
    def test_a_stop_tells_which_rank_hung(self, node: Writer, words: str, chinese: str) -> None:
        page = seen(node)
        assert page.headline == f"The job was stopped {words}."
        assert chinese in page.page
        assert page.why == ("node 0, rank 1 is in load (train.py:7)" if "rank 0" not in words else "")

    @pytest.mark.parametrize(("rank", "words"), [(1, ""), (0, " while rank 1 hung")])
    def test_a_step_of_the_rank_after_its_hang_shows_that_it_was_over(self, rank: int, words: str) -> None:
        node = hung()
        for at in (25, 35):
            node.at(at, "metrics", ranks={"rank": [rank], "loss": [1.5], "cpu": [1]})
        assert seen(node).headline == f"The job was stopped by Ctrl-C{words}."
        late = hung()
        late.at(25, "metrics", ranks={"rank": [1], "loss": [1.5]})
        assert "while rank 1 hung" in seen(late).headline, "its steps may be from before the hang"

    @pytest.mark.parametrize("since", ["start", "checkpoint"])
    def test_a_hang_that_was_over_at_the_stop_is_not_told(self, since: str) -> None:
        node = hung()
        if since == "start":
            node.at(30, "restart", attempt=2, reason="hung")
        node.at(30, since, label="rank 0", rank=0, step="40")
        assert seen(node).headline.startswith("The job was stopped by Ctrl-C")
        assert "hung" not in seen(node).headline

    @pytest.mark.parametrize(
        "end",
        [
            {"exit_code": 0}, {"exit_code": 3, "by": "training", "label": "rank 0"}, {"exit_code": 66, "by": "ma_boot"},
            {"exit_code": 143, "by": "signal", "signal": 15}, {"exit_code": 5, "by": "training"},
        ],
    )  # fmt: skip
    def test_the_top_has_the_exit_code_once(self, end: dict[str, object]) -> None:
        node = node_with()
        node.at(1, "start", label="rank 0", rank=0)
        node.at(2, "exit", label="rank 0", code=end["exit_code"], stopped=False)
        node.at(3, "end", **end)
        assert seen(node).header.count(f"exit code {end['exit_code']}") == 1

    @pytest.mark.parametrize(
        ("outputs", "uploaded", "is_told"),
        [([], 0, False), ([], 3, False), ([2], 0, True), ([2, 0], 0, False), ([0], 0, False)],
    )
    def test_only_a_job_with_outputs_misses_none(
        self, outputs: list[int], uploaded: int, is_told: bool
    ) -> None:
        node = processes(1)
        for number, files in enumerate(outputs):
            node.at(
                10, "channel", direction="output", name=f"out-{number}", files=files, local_dir="/o", url="u"
            )
        node.at(11, "transfer", direction="upload", files=uploaded, bytes=1, seconds=1)
        assert ("no output is missing" in seen(node).header) is is_told

    @pytest.mark.parametrize(("uploaded", "is_told"), [(0, False), (1, True)])
    def test_outputs_of_a_mapping_are_there_once_files_were_uploaded(
        self, uploaded: int, is_told: bool
    ) -> None:
        node = processes(1)
        node.at(1, "routes", inputs=[], outputs=[["/out", "obs://b/out/"]])
        node.at(11, "transfer", direction="upload", files=uploaded, bytes=1, seconds=1)
        assert ("no output is missing" in seen(node).header) is is_told

    @pytest.mark.parametrize(
        ("seconds", "code", "is_folded"), [(59, 0, True), (60, 0, False), (600, 3, True)]
    )
    def test_the_useful_node_time_of_a_short_or_failed_job_is_folded(
        self, seconds: int, code: int, is_folded: bool
    ) -> None:
        node = node_with()
        node.at(2, "start", label="rank 0", rank=0)
        node.at(seconds, "exit", label="rank 0", code=code, stopped=False)
        node.at(seconds, "end", exit_code=code, by="training" if code else None)
        page = seen(node)
        assert ("useful node time" in page.facts) is not is_folded
        assert ('<details class="facts"><summary>useful node time</summary>' in page.english) is is_folded

    def test_the_boot_command_is_at_the_bottom(self) -> None:
        job = '{"kind": "rehearsal", "boot_command": "exec ma_boot train.py", "time": 1760000000, "node": null}\n'
        page = seen(processes(1), job)
        assert "exec ma_boot" not in page.header
        assert "exec ma_boot train.py" in page.section("start").partition("Boot command for the job form")[2]


class TestWhy:
    """Cause in one line."""

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"node": 3, "rank": 27, "code": 1, "words": "ValueError: <x>"}, "node 3, rank 27: ValueError: <x>"),
            ({"node": 3, "rank": None, "code": 137, "words": ""}, "node 3: exit code 137"),
            ({}, ""),
        ],
    )  # fmt: skip
    def test_a_node_that_others_ended_says_who_did(self, fields: dict[str, object], why: str) -> None:
        node = ended(exit_code=143, by="signal", cause="stopped by SIGTERM", signal=15)
        node.at(1, "job cause", cause=fields)
        page = seen(node)
        assert page.headline == "The job was stopped by SIGTERM from outside."
        assert page.why == why

    def test_the_cause_known_to_the_last_run_counts(self) -> None:
        def written(node: Writer, number: int) -> None:
            node.at(100 * number + 1, "job cause", cause={"node": number, "words": "ValueError: x"})
            node.at(100 * number + 2, "end", exit_code=143, by="signal", signal=15)

        assert seen(run_twice(written)).why == "node 1: ValueError: x"

    def test_of_several_hangs_the_last_ended_the_job(self) -> None:
        node = ended(exit_code=124, by="ma_boot", cause="hung")
        for number in range(2):
            suspect = {"node": 0, "rank": number, "why": f"is in f{number}"}
            node.at(1 + number / 10, "stacks", folded=[], suspect=suspect)
        assert seen(node).why == "node 0, rank 1 is in f1"

    @pytest.mark.parametrize(("code", "words"), [(1, "ValueError: x"), (0, ""), (None, "")])
    def test_only_a_failure_has_words(self, code: int | None, words: str) -> None:
        assert seen(ended(exit_code=code, by="training", cause="ended", words="ValueError: x")).why == words

    def test_without_words_in_the_events_those_of_the_log_count(self) -> None:
        node = processes(1, code=3)
        assert seen(node, tails={"/log/0": "ValueError: " + "x" * 500}).why == "ValueError: " + "x" * 388
        assert seen(node).why == ""

    @pytest.mark.parametrize(
        ("cause", "words"),
        [
            ("not every output was uploaded:\n  - out: HTTP 403\n  - b", "not every output was uploaded: out: HTTP 403"),
            ("not every output was uploaded\n  - out", "not every output was uploaded"),
            ("not every output was uploaded:", "not every output was uploaded:"),
        ],
    )  # fmt: skip
    def test_ma_boots_own_words_have_their_first_item(self, cause: str, words: str) -> None:
        assert seen(ended(exit_code=74, by="output", cause=cause)).why == words

    def test_the_text_of_the_headline_is_not_repeated_below_it(self) -> None:
        cause = "not every output was uploaded:\n  - a: HTTP 403\n  - b: HTTP 404\n  - c: HTTP 500"
        page = seen(ended(exit_code=74, by="output", cause=cause))
        assert [page.english.count(f"{name}: HTTP") for name in "abc"] == [1, 1, 1]
        assert ["a: HTTP" in page.reason, "b: HTTP" in page.reason] == [False, True]

    def test_the_evidence_of_a_hang_is_not_repeated_below_it(self) -> None:
        cause = "node 0, rank 1 hung, and ma_boot stopped the run\nsuspected: node 0, rank 1: it is in load (a.py:7)"
        node = ended(exit_code=124, by="ma_boot", cause=cause)
        node.at(1, "stacks", folded=[], suspect={"node": 0, "rank": 1, "why": "is in load (a.py:7)"})
        page = seen(node)
        assert page.why == "node 0, rank 1 is in load (a.py:7)"
        assert page.reason == "node 0, rank 1 hung, and ma_boot stopped the run"

    @pytest.mark.parametrize(
        ("cause", "again"),
        [("stopped by SIGTERM", False), ("stopped by SIGTERM; before that, rank 1 failed", True)],
    )
    def test_of_a_stop_only_a_failure_before_it_is_said_again(self, cause: str, again: bool) -> None:
        page = seen(ended(exit_code=143, by="signal", cause=cause, signal=15))
        assert page.reason == (cause if again else "")

    def test_last_words_and_the_text_of_a_hint_are_cut(self) -> None:
        page = seen(processes(1, code=3), tails={"/log/0": "unrecognized arguments: --" + "x" * 1000})
        last = page.english.partition("Last output of rank 0")[2].partition("<pre>")[2].partition("</pre>")[0]
        assert len(last) == 300
        (hint,) = re.findall("<li>(.*?)</li>", page.english)
        assert hint.partition(": ModelArts appends")[0] == "unrecognized arguments: --" + "x" * 54


class TestNumbers:
    """The job in numbers, and what is missing."""

    def test_nodes_without_events_are_missing_up_to_4096(self) -> None:
        node = node_with(1)
        assert missing_nodes(line_of(node)) == [], "nobody says how many there are"
        node.at(1, "job", name="j", nodes=3)
        page = seen(node)
        assert page.facts["nodes"] == "1 of 3"
        assert "The events of these nodes are missing: 0, 2." in page.english
        many = node_with(1)
        many.at(0, "job", name="j", nodes=5000)
        assert missing_nodes(line_of(many)) == [0, *range(2, 4096)]

    def test_without_events_there_is_a_page_all_the_same(self) -> None:
        page = seen()
        assert page.headline == "There are no events of any node."
        assert page.facts == {"duration": "0.0 s", "nodes": "0", "processes": "0"}
        for part in ("time", "charts", "stacks", "data", "incidents", "processes", "logs", "start"):
            assert page.section(part) == ""
        assert "What to do" not in page.english

    @pytest.mark.parametrize(("gap", "runs"), [(1799, 2), (1800, 2), (1801, 1)])
    def test_a_run_that_ended_half_an_hour_before_the_next_is_left_out(self, gap: float, runs: int) -> None:
        first, second = node_with(), Writer(0, 10**12)
        second.phase("job", 1 + gap, 2 + gap)
        line = line_of(first.text() + second.text())
        assert (len(line.nodes[0].runs), line.earlier_runs) == (runs, 2 - runs)

    def test_the_last_twenty_runs_are_shown(self) -> None:
        text = ""
        for number in range(21):
            run = Writer(0, 10**12)
            run.phase("job", 10 * number, 10 * number + 1)
            text += run.text()
        page = seen(text)
        assert page.facts["reruns of the boot command"] == "19"
        assert "Earlier runs that are not shown: 1." in page.english


def test_every_exit_code_of_ours_has_its_words() -> None:
    assert set(OUR_CODES) == {int(code) for code in ExitCode}
