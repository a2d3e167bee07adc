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
            ({"exit_code": 0}, "The job succeeded: all 0 processes ended with exit code 0.", "all processes succeeded"),
            ({"exit_code": 143, "by": "signal", "signal": 15}, "The job was stopped by SIGTERM from outside.", "128 + the number"),
            ({"exit_code": 130, "by": "signal"}, "The job was stopped by SIGINT from outside.", "128 + the number"),
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
        meant = meaning(line_of(ended(**end)).outcome)
        assert meant is not None
        assert means in meant.en

    @pytest.mark.parametrize(
        ("end", "code", "title"),
        [
            ({"exit_code": 3, "by": "training", "cause": "x"}, "exit code 3", "<title>ma_boot: exit code 3</title>"),
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
        assert seen(run_twice(written), other).headline == "Rank 3 on node 0 hung."

    def test_a_rehearsal_that_ended_by_its_training_names_no_node(self) -> None:
        job = '{"kind": "job-end", "exit_code": 7, "by": "training", "label": "node 1", "time": 9, "node": null}'
        assert seen(job + "\n").headline == "The job failed with exit code 7."

    @pytest.mark.parametrize(("number", "name"), [(64, "SIGRTMAX"), (65, "SIGTERM")])
    def test_the_signal_of_a_rehearsal_is_one_that_there_is(self, number: int, name: str) -> None:
        end = f'"exit_code": 143, "by": "signal", "signal": {number}, "time": 9, "node": null'
        assert (
            seen(f'{{"kind": "job-end", {end}}}\n').headline == f"The job was stopped by {name} from outside."
        )


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
