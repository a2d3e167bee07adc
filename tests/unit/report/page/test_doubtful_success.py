"""The page of a job whose nodes ended with 0, while a command hides the failure of a process."""

from __future__ import annotations

from typing import Any

from ma_boot.report.doubt import Doubt
from ma_boot.report.page.head import meaning
from ma_boot.report.timeline.boot_run import doubt_in
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, node_with, seen, text_of

DOUBT = Doubt("rank 1", 1, "ValueError: loss is nan", "code/train.py:12", "/log/rank-1")
REMEDY = 'The command hides its exit code: use "set -o pipefail", or check the return code.'


def doubtful(
    number: int = 0, code: int = 0, doubt: Doubt | None = DOUBT, ranks: int = 2, **end: Any
) -> Writer:
    """A node with ranks that ended with 0, one of them in doubt."""
    node = node_with(number)
    node.at(0, "job", name="j", nodes=number + 1)
    for rank in range(ranks):
        who = {"label": f"rank {rank}", "rank": rank}
        node.at(2, "start", **who, log_file=f"/log/rank-{rank}")
        node.at(8, "exit", **who, code=0, stopped=False)
    node.at(9, "end", exit_code=code, doubt=doubt.fields() if doubt else None, **end)
    return node


def test_top_of_the_page_names_failure_and_remedy_in_amber() -> None:
    page = seen(doubtful(), tails={"/log/rank-1": "last words of 1\n"})
    assert page.headline == "The job ended with exit code 0, but a process of the training failed on node 0."
    assert page.why == "ValueError: loss is nan, at code/train.py:12"
    assert '<header class="doubtful">' in page.page
    assert "<title>j: exit code 0, but a process failed</title>" in page.page
    head = text_of(page.english.partition("<header")[2].partition("</header>")[0])
    assert REMEDY in head
    assert "last words of 1" in head
    meant = meaning(line_of(doubtful()))
    assert meant is not None
    assert meant.en == "the exit code of the command, which hides that of a process"


def test_process_in_doubt_differs_from_others_by_words_too() -> None:
    page = seen(doubtful(), tails={"/log/rank-0": "well\n", "/log/rank-1": "bad\n"})
    assert page.legend[1:3] == ["succeeded", "exit code 0, but a process failed"]
    assert [row[:4] for row in page.rows("processes")] == [
        ["rank 1", "0", "0", "exit code 0, but a process failed"],
        ["rank 0", "0", "0", "succeeded"],
    ]
    assert "<title>rank 1: 0, but a process failed, 2.0–8.0 s</title>" in page.page
    assert page.logs == ["rank 1 · node 0 · exit code 0", "rank 0 · node 0 · exit code 0"]
    assert page.page.count('<details id="log-rank-1" open>') == 1
    assert "root cause" not in page.english


def test_doubt_of_any_node_is_that_of_the_job() -> None:
    well = doubtful(0, doubt=None)
    assert "succeeded" in seen(well).headline
    page = seen(well, doubtful(1))
    assert page.headline.endswith("but a process of the training failed on node 1.")


def test_failure_of_a_node_counts_more_than_a_doubt() -> None:
    failed = doubtful(1, code=3, doubt=None, by="training", cause="x")
    page = seen(doubtful(0), failed)
    assert page.headline == "The job failed with exit code 3."
    assert page.why == ""
    assert '<header class="bad">' in page.page
    assert REMEDY not in page.english


def test_process_that_ma_boot_has_not_started_shows_its_log() -> None:
    page = seen(doubtful(ranks=0), tails={"/log/rank-1": "last words of 1\n"})
    assert "last words of 1" in page.english
    assert "Last output of rank 1" in page.english


def test_only_the_last_attempt_of_a_process_is_in_doubt() -> None:
    node = node_with()
    for start in (2, 5):
        node.at(start, "start", label="rank 1", rank=1, log_file="/log/rank-1")
        node.at(start + 1, "exit", label="rank 1", rank=1, code=0, stopped=False)
    node.at(9, "end", exit_code=0, doubt=DOUBT.fields())
    ((_, run),) = line_of(node).all_runs()
    assert [process.role for process in run.processes] == ["well", "doubtful"]


def test_doubt_of_another_version_is_bounded_or_left_out() -> None:
    for nothing in (None, "x", {}, {"words": ""}, {"words": 3, "label": "rank 1"}):
        assert doubt_in({"doubt": nothing}) is None
    event = {name: str(name) * 1000 for name in ("label", "words", "place", "log_file")}
    found = doubt_in({"doubt": {**event, "rank": "x"}})
    assert found is not None
    lengths = [len(text) for text in (found.label, found.words, found.place, found.log_file)]
    assert (lengths, found.rank) == ([60, 300, 300, 1000], None)
