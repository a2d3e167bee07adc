"""Root cause of a job: the first failure of several."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from ma_boot.node.peers.failure_message import failures_body, read_failures
from ma_boot.report.cause import ENDED_EARLY, OWN, RAISED, Cause, cause_of, causes_of, readable
from ma_boot.report.result import WorkerExit

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n{}\n'
RESET = TRACEBACK.format(
    "RuntimeError: [gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer"
)
SHAPE = TRACEBACK.format("ValueError: no such layer: 17")


def ended(rank: int | None, code: int, at: float, output: str = "", stopped: bool = False) -> WorkerExit:
    label = "command" if rank is None else f"rank {rank}"
    return WorkerExit(label, rank, rank, 1, code, None, int(at * 1e9), 1.0, stopped, "log", output)


def cause(*exits: WorkerExit) -> Cause:
    """The cause of a job in which there is one, on node 3."""
    first = cause_of(causes_of(exits, 3, 0.0))
    assert first is not None
    return first


def test_the_exceptions_own_words() -> None:
    assert (
        str(cause(ended(27, 1, 5.0, SHAPE)))
        == "node 3, rank 27: ValueError: no such layer: 17, at train.py:1"
    )
    assert str(cause(ended(27, 9, 5.0))) == "node 3, rank 27 ended with exit code 9"
    assert str(cause(ended(None, 9, 5.0))) == "node 3: command ended with exit code 9"


def test_the_kernels_words_if_it_was_out_of_memory() -> None:
    """Independent of its output."""
    killed = ended(3, 137, 5.0, RESET)._replace(oom="the kernel killed 1 process of this container")
    first = cause(killed, ended(1, 1, 6.0, SHAPE))
    assert str(first) == "node 3, rank 3: out of memory: the kernel killed 1 process of this container"
    assert first.evidence == OWN


def test_the_first_in_time_if_both_failed_by_themselves() -> None:
    first = cause(ended(1, 1, 6.0, SHAPE), ended(2, 7, 5.0))
    assert first.rank == 2


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: Connection closed by peer [127.0.0.1]:3333",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2021, remote process exited",
        "RuntimeError: EI0002: The wait execution of the Notify register times out.",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation",
    ],
)
def test_lost_peer_is_no_root_cause_though_its_rank_ended_first(words: str) -> None:
    first = cause(ended(1, 1, 5.0, TRACEBACK.format(words)), ended(2, 1, 9.0, SHAPE))
    assert (first.rank, first.evidence) == (2, OWN)


def test_an_exception_of_a_rank_that_was_stopped_meanwhile_is_better_than_a_lost_peer() -> None:
    first = cause(
        ended(1, 134, 5.0, RESET), ended(2, 143, 9.0, SHAPE, stopped=True), ended(0, 143, 9.0, stopped=True)
    )
    assert (first.rank, first.evidence) == (2, RAISED)


def test_exception_raised_by_a_stop_is_no_failure() -> None:
    stopped = ended(1, 143, 5.0, TRACEBACK.format("KeyboardInterrupt"), stopped=True)
    assert causes_of([stopped], 3, 0.0) == []


def test_an_exception_that_was_handled_is_no_failure_of_a_rank_that_was_stopped() -> None:
    handled = SHAPE + "step\n" * 20
    assert causes_of([ended(2, 143, 9.0, handled, stopped=True)], 3, 0.0) == []
    assert len(causes_of([ended(2, 143, 9.0, SHAPE + "step\n" * 5, stopped=True)], 3, 0.0)) == 1


def test_if_all_lost_their_peers_the_node_that_does_not_answer_is_the_cause() -> None:
    failures = causes_of((ended(1, 1, 5.0, RESET),), 0, 0.0)
    first = cause_of(failures, [7, 9])
    assert str(first).startswith(
        "node 7: the node does not answer, and others lost it (node 0, rank 1: Runtime"
    )
    assert str(cause_of([], [7])) == "node 7: the node does not answer any more"
    own = causes_of((ended(1, 1, 5.0, SHAPE),), 0, 0.0)
    assert (
        str(cause_of([*own, *failures], [7]))
        == "node 0, rank 1: ValueError: no such layer: 17, at train.py:1"
    )


def test_failure_is_unchanged_on_the_node_that_receives_it() -> None:
    own = causes_of((ended(1, 1, 5.0004, SHAPE), ended(2, 1, 6.0, RESET)), 3, 1e9)
    assert (
        read_failures(3, json.loads(json.dumps(failures_body(own))), has_rank=lambda node, rank: rank > 0)
        == own
    )
    assert [failure.at for failure in own] == [1e9 + 5, 1e9 + 6]


def test_all_nodes_name_the_same_of_two_simultaneous_failures() -> None:
    failures = [Cause(node, rank, 1, "E", at) for node, rank, at in ((1, 2, 5.0), (0, 1, 5.0), (0, 0, 5.001))]
    for order in permutations(failures):
        assert cause_of(order) == failures[1]


def test_a_rank_that_ended_early_is_the_cause_of_those_that_lost_it() -> None:
    exits = [ended(0, 0, 4.0), ended(1, 1, 5.0, RESET)]
    first = cause(*exits)
    assert (first.rank, first.evidence) == (0, ENDED_EARLY)
    assert "ended with exit code 0 after 1.0 s" in str(first)
    first = cause(ended(0, 0, 4.0), ended(1, 1, 5.0, SHAPE))
    assert first.rank == 1, "an exception of its own"
    first = cause(ended(1, 1, 5.0, RESET), ended(0, 0, 6.0))
    assert first.rank == 1, "it ended later"


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/job/code/train.py", line 3, in <module>
  |     raise ExceptionGroup("two loaders failed", [ValueError("a"), KeyError("b")])
  | ExceptionGroup: two loaders failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/usr/lib/python3.11/json.py", line 9, in f
    | ValueError: a
    +---------------- 2 ----------------
    | KeyError: 'b'
    +------------------------------------
"""
FRAMES = (
    'Traceback (most recent call last):\n  File "/home/ma-user/code/model/data.py", line 41, in <module>\n    f()\n'
    '  File "/env/lib/python3.11/site-packages/torch/nn.py", line 9, in f\nValueError: bad label 91\n'
)


@pytest.mark.parametrize(
    ("output", "words", "place"),
    [
        ("no labels in /data\n", "ended with exit code 1; its last line: no labels in /data", ""),
        ("/usr/bin/python: No module named trainer\n", "/usr/bin/python: No module named trainer", ""),
        (GROUP, "ExceptionGroup: two loaders failed (2 sub-exceptions): ValueError: a", "code/train.py:3"),
        (FRAMES, "ValueError: bad label 91", "model/data.py:41"),
        (SHAPE + "\nThe above exception was the direct cause of the following exception:\n\n" + FRAMES,
         "ValueError: bad label 91", "model/data.py:41"),
        (SHAPE + "step\n" * 60 + "no disk\n", "ended with exit code 1; its last line: no disk", ""),
        (SHAPE + "a library says goodbye\n" * 30, "ValueError: no such layer: 17", "train.py:1"),
    ],
)  # fmt: skip
def test_the_words_of_the_cause_and_its_place(output: str, words: str, place: str) -> None:
    first = cause(ended(0, 1, 5.0, output))
    assert (first.words, first.place) == (words, place)


def test_a_traceback_before_a_fault_of_the_processor_is_not_its_cause() -> None:
    fault = ended(0, 139, 5.0, SHAPE)._replace(signal=11)
    assert str(cause(fault)) == "node 3, rank 0 was killed by SIGSEGV"


def test_root_cause_has_a_remedy() -> None:
    first = cause(ended(0, 1, 5.0, TRACEBACK.format("OSError: [Errno 28] No space left on device")))
    assert str(first).startswith(
        "node 3, rank 0: OSError: [Errno 28] No space left on device, at train.py:1. What to do: the disk is full"
    )


ROW = {"node": 3, "rank": 1, "code": 1, "words": "w", "at": 1.0, "evidence": 0}


@pytest.mark.parametrize(
    "rows",
    [
        None,
        "text",
        [None],
        [{}],
        [{**ROW, "node": 4}],
        [{**ROW, "node": "x"}],
        [{**ROW, "rank": "1"}],
        [{**ROW, "rank": -1}],
        [{**ROW, "rank": 0}],
        [{**ROW, "at": -5.0}],
        [{**ROW, "at": float("inf")}],
        [{**ROW, "at": float("nan")}],
        [{**ROW, "evidence": -1}],
        [{**ROW, "code": "x"}],
        [{**ROW, "code": float("inf")}],
    ],
)
def test_malformed_and_forged_failures_are_ignored(rows: Any) -> None:
    assert read_failures(3, {"failures": rows}, has_rank=lambda node, rank: rank > 0) == []
    assert len(read_failures(3, {"failures": [ROW]}, has_rank=lambda node, rank: rank > 0)) == 1


def test_node_0_tells_the_failures_of_others() -> None:
    assert [failure.node for failure in read_failures(0, {"failures": [ROW]}, lambda node, rank: True)] == [3]


def test_words_are_one_line_that_moves_no_cursor() -> None:
    assert readable("\x1b[2Ja\u202eb\tc\nsecond line") == r"\x1b[2Ja\u202eb\tc"
    assert len(readable("x" * 10_000)) == 300


def test_whole_message_of_an_exception_reaches_the_other_nodes() -> None:
    text = "RuntimeError: HCCL function error, error code is 1\nConfig_Error_Ranktable(EI0014): wrong version"
    own = causes_of([ended(3, 1, 5.0, TRACEBACK.format(text))], 3, 0.0)
    assert own[0].text == text
    received = read_failures(3, json.loads(json.dumps(failures_body(own))), has_rank=lambda node, rank: True)
    assert received == own
