"""Which rank is suspected, by stacks of ranks in several kinds of hangs."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.rank_stacks.stacks import RankAtHang, folded, last_dump
from ma_boot.node.observe.rank_stacks.suspect import at_work, suspect
from tests.unit.observe.suspected import suspected

HEAD = (
    'Process {0}: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread {0} (idle): "MainThread"\n'
)
REDUCE = """\
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    wrapper (torch/distributed/c10d_logger.py:83)
    step (train.py:34)
    main (train.py:44)
    <module> (train.py:47)
"""
GATHER = (
    REDUCE.replace("all_reduce", "all_gather")
    .replace("3252", "4123")
    .replace("step (train.py:34", "step (train.py:30")
)
RECV = (
    REDUCE.replace("all_reduce", "recv")
    .replace("3252", "2740")
    .replace("step (train.py:34", "step (train.py:26")
)
BACKWARD = """\
    _engine_run_backward (torch/autograd/graph.py:865)
    backward (torch/autograd/__init__.py:354)
    backward (torch/_tensor.py:630)
    step (train.py:33)
    main (train.py:44)
    <module> (train.py:47)
"""
BARRIER = REDUCE.replace("all_reduce", "barrier").replace("step (train.py:34", "step (train.py:36")
LOOP = """\
    evaluate (train.py:60)
    main (train.py:44)
    <module> (train.py:47)
"""
LOADER = """\
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    next_batch (data.py:8)
    step (train.py:20)
    main (train.py:44)
    <module> (train.py:47)
"""
SYNC = """\
    synchronize (torch_npu/npu/utils.py:40)
    step (train.py:36)
    main (train.py:44)
    <module> (train.py:47)
"""
OTHER_THREAD = 'Thread {0} (idle): "pin"\n    copy_pinned (data.py:70)\n    Thread.run (threading.py:982)\n'


def job(usual: str, odd: dict[int, str], size: int = 8, **more: object) -> list[RankAtHang]:
    """Ranks with these stacks, four on a node, each with a pid of its own."""
    stacks = {rank: HEAD.format(1000 + rank) + odd.get(rank, usual) for rank in range(size)}
    return [RankAtHang(rank, rank // 4, stack, **more) for rank, stack in stacks.items()]  # type: ignore[arg-type]


def quiet(ranks: list[RankAtHang], but: dict[int, float]) -> list[RankAtHang]:
    """These ranks, silent for a minute but for some."""
    return [rank._replace(quiet=but.get(rank.rank, 60.0)) for rank in ranks]


@pytest.mark.invariant("A suspect differs from the other ranks; without evidence there is none")
@pytest.mark.parametrize(
    ("ranks", "rank", "why"),
    [
        (job(REDUCE, {5: LOADER}), 5, "is loading data in next_batch (data.py:8), while ranks 0-4, 6-7 are in all_reduce"),
        (job(REDUCE, {5: GATHER}), 5, "is in all_gather (torch/distributed/distributed_c10d.py:4123), called by step"),
        (job(REDUCE, {2: RECV, 6: RECV}), 2, "is in recv (torch/distributed/distributed_c10d.py:2740), called by step (train.py:26), as rank 6, while"),
        (job(REDUCE, {2: RECV, 6: RECV}, 4), 2, "is in recv"),
        (job(SYNC, {3: LOADER}), 3, "are waiting for the device in synchronize"),
        (job(LOADER, {3: REDUCE}), 0, "as ranks 1-2, 4-7, while rank 3 is in all_reduce"),
        (job(LOADER, {6: LOADER.replace("data.py:8", "data.py:99")}), 6, "data.py:99"),
        (job(BACKWARD, {5: BARRIER}), 5, "is in barrier (torch/distributed/distributed_c10d.py:3252), called by step"),
        (job(BACKWARD, {30: BARRIER}, 32), 30, "while ranks 0-29, 31 are in backward (torch/_tensor.py:630)"),
        (job(BACKWARD, {2: RECV}, 4), 2, "is in recv"),
        (job(LOOP, {6: BARRIER}), 6, "is in barrier"),
        (job(BACKWARD, {1: LOADER}, 2), 1, "is loading data"),
        (job(REDUCE, {2: LOADER, 3: LOADER}, 4), 2, "as rank 3, while ranks 0-1 are in all_reduce"),
        (quiet(job(BARRIER, {2: LOOP, 3: LOADER}, 4), {2: 1.0}), 2, "is in evaluate"),
        (quiet(job(BARRIER, {0: LOOP}, 4), {0: 1.0, 2: 1.0}), 0, "is in evaluate"),
    ],
    ids=["loader", "swapped", "two", "two of four", "device", "most load", "one elsewhere", "ddp", "ddp of 32", "message",
         "own place", "two ranks", "two and two", "alive", "who waits by polling"],
)  # fmt: skip
def test_rank_that_does_something_else_is_suspected(ranks: list[RankAtHang], rank: int, why: str) -> None:
    named = suspected(ranks)
    assert (named.rank, named.node) == (rank, rank // 4)
    assert why in named.why


@pytest.mark.parametrize(
    ("ranks", "working"),
    [
        (quiet(job(BARRIER, {0: LOOP}, 4), {0: 1.0}), [0]),
        (quiet(job(BACKWARD, {0: LOOP}, 2), {0: 1.0}), [0]),
        (quiet(job("", {}, 4), {0: 1.0}), [0]),
        (quiet(job(BARRIER, {0: LOOP, 1: LOADER}, 4), {0: 1.0}), []),
        (quiet(job(LOOP, {3: LOADER}, 4), dict.fromkeys(range(3), 1.0)), []),
        (quiet(job(BARRIER, {}, 4), {0: 1.0}), []),
        (quiet(job(BARRIER, {0: LOOP}, 4), {}), []),
    ],
    ids=["evaluates", "of two", "no stacks", "another one hangs", "most work", "prints in a barrier", "all quiet"],
)  # fmt: skip
def test_there_is_no_hang_while_the_rank_prints_that_all_wait_for(
    ranks: list[RankAtHang], working: list[int]
) -> None:
    printing = [rank._replace(printed=rank.quiet) for rank in ranks]
    assert [rank.rank for rank in at_work(printing, False)] == working


MPI_CALL = """\
    opal_progress (libopen-pal.so.40.30.2)
    {} (libmpi.so.40.30.4)
    exchange (train.py:36)
    main (train.py:44)
    <module> (train.py:47)
"""


@pytest.mark.parametrize(
    "call", ["PMPI_Wait", "PMPI_Waitall", "MPI_Test", "PMPI_Testsome", "PMPI_Probe", "PMPI_Iprobe"]
)
def test_rank_with_an_open_request_of_mpi_waits_for_others(call: str) -> None:
    """Rank 0 waits for a request, rank 4 loops, and the others are in a barrier."""
    odd = {0: MPI_CALL.format(call), 4: LOOP}
    named = suspected(job(MPI_CALL.format("PMPI_Barrier"), odd, 5))
    assert (named.rank, "is in evaluate (train.py:60)" in named.why) == (4, True)


GRAPH_RUN = """\
    pthread_cond_timedwait (libc.so.6)
    mindspore::ps::core::AbstractNode::CollectiveWait (libmindspore_cluster.so)
    mindspore::fl::server::CollectiveOpsImpl::RunRingAllReduce<float> (libmindspore_cluster.so)
    mindspore::fl::server::CollectiveOpsImpl::AllReduce<float> (libmindspore_cluster.so)
    mindspore::runtime::GraphScheduler::Run (libmindspore_ms_backend.so)
    _CellGraphExecutor.__call__ (mindspore/graph/api.py:2389)
    Cell.__call__ (mindspore/nn/cell.py:1371)
    Model.train (mindspore/train/model.py:1369)
    <module> (train.py:47)
"""


def test_rank_in_a_graph_of_mindspore_waits_in_the_collective_that_it_runs() -> None:
    """Recorded with MindSpore's CPU build: of two ranks, one runs the graph, the other loops in a callback."""
    named = suspected(job(GRAPH_RUN, {0: LOOP}, 2))
    assert (named.rank, "rank 1 is in mindspore::fl::server::CollectiveOpsImpl::AllReduce" in named.why) == (
        0,
        True,
    )


LOOPS = "    loops (train.py:9)\n    <module> (train.py:47)\n"
POLLS = "    polls (train.py:19)\n    <module> (train.py:47)\n"


@pytest.mark.parametrize(
    ("polls", "rank"), [("waits", 2), ("stays", None)], ids=["seen to poll", "not seen to poll"]
)
def test_rank_that_loops_is_suspected_before_one_that_polls(polls: str, rank: int | None) -> None:
    ranks = job(REDUCE, {1: POLLS, 2: LOOPS}, 4, progress="waits")
    ranks[1:3] = [ranks[1]._replace(progress=polls), ranks[2]._replace(progress="stays")]
    named = suspect(ranks[:3])
    assert (named and named.rank) == rank


@pytest.mark.parametrize("progress", ["stays", "waits"])
def test_ranks_on_different_lines_of_one_short_loop_are_at_one_place(progress: str) -> None:
    ranks = job(LOOP, {1: LOOP.replace(":60", ":61"), 3: LOADER}, 4, progress=progress)
    named = suspected(ranks)
    assert (named.rank, "ranks 0-2 are in evaluate (train.py:60)" in named.why) == (3, True)


def test_ranks_in_two_loops_of_one_function_are_at_two_places() -> None:
    ranks = job(LOOP, {1: LOOP.replace(":60", ":66")}, 3, progress="stays")
    named = suspected(ranks)
    assert (named.rank, "evaluate (train.py:66)" in named.why) == (1, True)


def test_rank_that_waits_for_its_device_is_suspected_before_one_in_a_collective_on_the_host() -> None:
    """As recorded on an H100: rank 0 in Gloo, rank 1 in an endless kernel."""
    named = suspected(job(REDUCE, {1: SYNC}, 2, progress="waits"))
    assert (named.rank, named.why.startswith("is waiting for the device in synchronize")) == (1, True)
    most_at_device = suspected(job(SYNC, {1: REDUCE}, 4))
    assert (most_at_device.rank, most_at_device.why.startswith("is in all_reduce")) == (1, True)


def independent(size: int, idle: tuple[int, ...], usual: str = LOOP) -> list[RankAtHang]:
    """Ranks that make progress in their own code, most of them at one place, but for some idle ones."""
    ranks = quiet(job(usual, {size - 2: LOADER, size - 1: LOOPS}, size), dict.fromkeys(range(size), 1.0))
    return [
        rank._replace(quiet=60.0, progress="waits") if rank.rank in idle else rank._replace(progress="moves")
        for rank in ranks
    ]


@pytest.mark.parametrize(
    ("size", "who"), [(2, "rank 0 makes progress"), (5, "ranks 0-3 make progress")], ids=["two", "most at one place"]
)  # fmt: skip
def test_idle_rank_is_suspected_while_all_others_work_for_themselves(size: int, who: str) -> None:
    named = suspected(independent(size, (size - 1,)))
    assert (named.rank, named.why) == (size - 1, f"is idle, while {who}")


@pytest.mark.parametrize(
    "ranks",
    [independent(7, (5, 6)), independent(3, (2,), BARRIER), independent(2, (0, 1))],
    ids=["two idle", "another one waits", "all idle"],
)
def test_no_rank_is_suspected_as_the_only_idle_one(ranks: list[RankAtHang]) -> None:
    named = suspect(ranks)
    assert named is None or "is idle" not in named.why


def test_single_rank_that_still_runs_is_suspected() -> None:
    ranks = [rank._replace(ended=0) for rank in job(REDUCE, {}, 4)]
    ranks[2] = ranks[2]._replace(ended=None)
    named = suspected(ranks)
    assert (named.rank, str(named.why)) == (2, "still runs, while ranks 0-1, 3 have ended")


def test_a_node_that_does_not_answer_is_suspected_before_any_rank() -> None:
    named = suspected(job(REDUCE, {5: LOADER}), silent=[3, 7])
    assert str(named) == "node 3"
    assert named.why.endswith("neither do nodes 7")


def test_a_rank_that_has_ended_keeps_the_others_waiting() -> None:
    ranks = job(REDUCE, {})
    ranks[6] = ranks[6]._replace(ended=0, stack="")
    named = suspected(ranks)
    assert str(named) == "node 1, rank 6"
    assert named.why == "has ended with exit code 0, and ranks 0-5, 7 run on"


def test_a_rank_that_is_stopped_by_a_signal() -> None:
    ranks = job(REDUCE, {})
    ranks[3] = ranks[3]._replace(state="T")
    named = suspected(ranks)
    assert (named.rank, named.why) == (3, "is stopped by a signal (SIGSTOP, or a debugger)")


def test_a_disk_that_does_not_answer_is_said() -> None:
    ranks = job(REDUCE, {4: LOADER, 5: LOADER.replace("data.py:8", "data.py:9")})
    ranks[5] = ranks[5]._replace(state="D")
    named = suspected(ranks)
    assert named.rank == 5
    assert "sleeps uninterruptibly (D)" in named.why


def test_another_thread_of_one_rank_is_evidence_if_all_main_threads_are_at_the_same_place() -> None:
    named = suspected(job(REDUCE, {4: REDUCE + OTHER_THREAD.format(7)}))
    assert (named.rank, named.why) == (
        4,
        "has a thread reading or writing in copy_pinned (data.py:70), which no other rank has",
    )


def test_first_rank_to_stop_is_suspected_if_the_stacks_are_equal() -> None:
    ranks = job(REDUCE, {}, quiet=60.0)
    ranks[7] = ranks[7]._replace(quiet=75.0)
    named = suspected(ranks)
    assert (named.rank, named.why) == (7, "stopped 15 s before all others; the stacks show no difference")


WITHOUT_EVIDENCE = {
    "equal": job(REDUCE, {}),
    "one each": job(LOADER, {1: LOADER.replace("data.py:8", "data.py:9")}, 2),
    "empty": job("", {}),
    "no stacks": [RankAtHang(0, 0, "no stacks: py-spy is not installed")],
    "nobody": [],
    "two collectives": job(REDUCE, {1: GATHER}, 2),
    "two in ddp": job(BACKWARD, {1: BARRIER}, 2),
    "two and two": job(REDUCE, {2: GATHER, 3: GATHER}, 4),
    "all others live": quiet(job(LOOP, {3: BARRIER}, 4), dict.fromkeys(range(3), 1.0)),
    "no stacks, one sooner": quiet(job("", {}, 2), {1: 75.0}),
    "one lives": quiet(job(REDUCE, {}, 2), {1: 1.0}),
}


@pytest.mark.invariant("A suspect differs from the other ranks; without evidence there is none")
@pytest.mark.parametrize("ranks", WITHOUT_EVIDENCE.values(), ids=list(WITHOUT_EVIDENCE))
def test_without_evidence_no_rank_is_suspected(ranks: list[RankAtHang]) -> None:
    assert suspect(ranks) is None


def test_equal_stacks_are_folded_and_odd_ones_come_first() -> None:
    folds = folded(job(REDUCE, {2: RECV, 6: RECV, 5: LOADER}))
    assert [fold.ranks for fold in folds] == [(5,), (2, 6), (0, 1, 3, 4, 7)]
    assert folds[0].stack.startswith('Thread 1005 (idle): "MainThread"\n    Condition.wait')
    assert "Process" not in folds[0].stack


def test_ranks_that_poll_in_the_same_call_are_folded() -> None:
    polls = REDUCE.replace("    all_reduce", "    poll (torch/distributed/x.py:{})\n    all_reduce", 1)
    assert len(folded(job(polls.format(1), {3: polls.format(2)}))) == 1


def test_native_calls_do_not_part_equal_ranks() -> None:
    native = "    0x7f9e2b6a3f16 (libc.so.6)\n    {} (libtorch_cpu.so)\n"
    assert len(folded(job(native.format("wait") + REDUCE, {3: native.format("poll") + REDUCE}))) == 1


def test_every_rank_is_in_one_fold() -> None:
    ranks = [*job(REDUCE, {1: "no stacks: x"}), RankAtHang(8, 2, ended=3), RankAtHang(9, 2)]
    assert sorted(rank for fold in folded(ranks) for rank in fold.ranks) == list(range(10))
    assert "has ended with exit code 3" in [fold.stack for fold in folded(ranks)]


DUMP = """\
step 7
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/home/me/data.py", line 70 in copy_pinned

Current thread 0x00007f02 (most recent call first):
  File "/opt/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/home/me/train.py", line 34 in step
  File "/home/me/train.py", line 47 in <module>
"""


def test_stacks_of_faulthandler_are_read_too() -> None:
    dump = last_dump(
        'Thread 0x1 (most recent call first):\n  File "old.py", line 1 in old\n' + DUMP + "step 8\n"
    )
    assert dump.startswith("Thread 0x00007f01")
    assert "step" not in dump.splitlines()[-1]
    odd = DUMP.replace("all_reduce", "barrier").replace("line 34", "line 35")
    named = suspected([RankAtHang(rank, 0, odd if rank == 1 else dump) for rank in range(4)])
    assert named.rank == 1
    assert (
        "in barrier (torch/distributed/distributed_c10d.py:3252), called by step (/home/me/train.py:35)"
        in named.why
    )


def test_no_dump_is_no_stack() -> None:
    assert last_dump("step 7\nstep 8\n") == ""
