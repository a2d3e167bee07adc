"""Which failure of a job was the first one."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from ma_boot.observe.channel import JobFailure, failures_of, first_failure_of, told, told_by
from ma_boot.observe.channel.failures import LOST_PEER, OWN, RAISED, readable
from ma_boot.reporting import WorkerExit

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n{}\n'
RESET = TRACEBACK.format(
    "RuntimeError: [gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer"
)
SHAPE = TRACEBACK.format("ValueError: no such layer: 17")


def ended(rank: Optional[int], code: int, at: float, output: str = "", stopped: bool = False) -> WorkerExit:
    label = "command" if rank is None else f"rank {rank}"
    return WorkerExit(label, rank, rank, 1, code, None, int(at * 1e9), 1.0, stopped, "log", output)


def cause(*exits: WorkerExit) -> Optional[JobFailure]:
    return first_failure_of(failures_of(exits, 3))


def test_the_exceptions_own_words() -> None:
    assert str(cause(ended(27, 1, 5.0, SHAPE))) == "node 3, rank 27: ValueError: no such layer: 17"
    assert str(cause(ended(27, 9, 5.0))) == "node 3, rank 27: ended with exit code 9"
    assert str(cause(ended(None, 9, 5.0))) == "node 3: command ended with exit code 9"


def test_the_kernels_words_if_it_was_out_of_memory() -> None:
    """Whatever stands in its output."""
    killed = ended(3, 137, 5.0, RESET)._replace(oom="the kernel killed 1 process of this container")
    found = cause(killed, ended(1, 1, 6.0, SHAPE))
    assert found is not None
    assert str(found) == "node 3, rank 3: out of memory: the kernel killed 1 process of this container"
    assert found.evidence == OWN


def test_the_first_in_time_if_both_failed_by_themselves() -> None:
    found = cause(ended(1, 1, 6.0, SHAPE), ended(2, 7, 5.0))
    assert found is not None
    assert found.rank == 2


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
def test_who_lost_its_peer_is_no_cause_though_it_ended_first(words: str) -> None:
    found = cause(ended(1, 1, 5.0, TRACEBACK.format(words)), ended(2, 1, 9.0, SHAPE))
    assert found is not None
    assert (found.rank, found.evidence) == (2, OWN)


def test_an_exception_of_a_rank_that_was_stopped_meanwhile_is_better_than_a_lost_peer() -> None:
    found = cause(
        ended(1, 134, 5.0, RESET), ended(2, 143, 9.0, SHAPE, stopped=True), ended(0, 143, 9.0, stopped=True)
    )
    assert found is not None
    assert (found.rank, found.evidence) == (2, RAISED)


def test_what_a_stop_itself_raises_is_no_failure() -> None:
    assert cause(ended(1, 143, 5.0, TRACEBACK.format("KeyboardInterrupt"), stopped=True)) is None


def test_an_exception_that_was_handled_is_no_failure_of_a_rank_that_was_stopped() -> None:
    handled = SHAPE + "step\n" * 20
    assert cause(ended(2, 143, 9.0, handled, stopped=True)) is None
    assert cause(ended(2, 143, 9.0, SHAPE + "step\n" * 5, stopped=True)) is not None


def test_if_all_lost_their_peers_the_node_that_does_not_answer_is_the_cause() -> None:
    failures = failures_of((ended(1, 1, 5.0, RESET),), 0)
    found = first_failure_of(failures, [7, 9])
    assert str(found).startswith(
        "node 7: the node does not answer, and others lost it (node 0, rank 1: Runtime"
    )
    assert str(first_failure_of([], [7])) == "node 7: the node does not answer any more"
    own = failures_of((ended(1, 1, 5.0, SHAPE),), 0)
    assert str(first_failure_of([*own, *failures], [7])) == "node 0, rank 1: ValueError: no such layer: 17"


def test_a_failure_keeps_its_place_in_time_on_the_way_to_another_clock() -> None:
    own = failures_of((ended(1, 1, 5.0, SHAPE), ended(2, 1, 6.0, RESET)), 3)
    body = json.loads(json.dumps(told(own, now=8.0)))
    assert told_by(3, body, when=108.0, own=(0,)) == [
        JobFailure(3, 1, 1, "ValueError: no such layer: 17", 105.0, OWN),
        JobFailure(3, 2, 1, own[1].words, 106.0, LOST_PEER),
    ]


ROW = {"rank": 1, "code": 1, "words": "w", "ago": 1.0, "evidence": 0}


@pytest.mark.parametrize(
    "rows",
    [
        None,
        "text",
        [None],
        [{}],
        [{**ROW, "rank": "1"}],
        [{**ROW, "rank": -1}],
        [{**ROW, "rank": 0}],
        [{**ROW, "ago": -5.0}],
        [{**ROW, "ago": float("inf")}],
        [{**ROW, "ago": float("nan")}],
        [{**ROW, "evidence": -1}],
        [{**ROW, "code": "x"}],
        [{**ROW, "code": float("inf")}],
    ],
)
def test_what_is_no_failure_or_a_lie_about_this_nodes_ranks_is_not_believed(rows: Any) -> None:
    assert told_by(3, {"failures": rows}, 100.0, own=(0,)) == []
    assert len(told_by(3, {"failures": [ROW]}, 100.0, own=(0,))) == 1


def test_words_are_one_line_that_moves_no_cursor() -> None:
    assert readable("\x1b[2Ja\u202eb\tc\nsecond line") == " [2Ja b c"
    assert len(readable("x" * 10_000)) == 300
