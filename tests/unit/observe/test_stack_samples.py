"""Progress of a rank between several stacks."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.observe.rank_stacks.stack_samples import MOVES, STAYS, UNKNOWN, WAITS, compare_samples

MAIN = 'Thread 7 (active): "MainThread"\n'
REDUCE = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:34)\n"
SPIN = "    <module> (train.py:4)\n"
POLL = "    c10d::Work::isCompleted (libtorch_python.so)\n" + SPIN
DISPATCHER = "    pybind11::cpp_function::dispatcher (libtorch_python.so)\n" + SPIN
SYNC = "    {} (libcuda.so.580)\n    cuCtxSynchronize_v2 (libcuda.so.580)\n    synchronize (torch/cuda/__init__.py:1162)\n    f (t.py:3)\n"
LOCK = (
    "    PyThread_acquire_lock_timed (libpython3.11.so.1.0)\n    lock_PyThread_acquire_lock (libpython3.11.so.1.0)\n"
    + SPIN
)
GEMM = "    {} (libmkl_core.so.2)\n    at::native::addmm (libtorch_cpu.so)\n    evaluate (train.py:60)\n"
MODULE = "    forward (torch/nn/modules/{}.py:{})\n    evaluate (train.py:60)\n"
QUEUE = "    wait (threading.py:{})\n    get (queue.py:{})\n    next_batch (data.py:8)\n"
MPI = "    {} (libopen-pal.so.80)\n    opal_progress (libopen-pal.so.80)\n    MPI_Barrier (libmpi.so.40)\n    train (t.py:9)\n"
# As recorded in a loop around MPI_Test: most samples are in the binding.
CTYPES = "    {0} ({1})\n    0x7ff451 (_ctypes.cpython-311-x86_64-linux-gnu.so)\n" + SPIN
BINDINGS = [
    CTYPES.format("ffi_call", "libffi.so.8.1.2"),
    CTYPES.format("ffi_prep_cif", "libffi.so.8.1.2"),
    SPIN,
]
TESTS = CTYPES.format("PMPI_Test", "libmpi.so.40.30.4")
KERNELS = [CTYPES.format("fft", "libfast.so"), CTYPES.format("sort", "libfast.so")]
WRITER = 'Thread 8 (idle): "writer"\n    {} (writer.py:{})\n    run (threading.py:982)\n'


@pytest.mark.parametrize(
    ("samples", "progress"),
    [
        ([REDUCE, REDUCE, REDUCE], WAITS),
        ([SPIN, SPIN], STAYS),
        ([SPIN, SPIN.replace(":4", ":5")], STAYS),
        ([SPIN, SPIN.replace(":4", ":9")], MOVES),
        ([POLL, DISPATCHER, SPIN], WAITS),
        ([DISPATCHER, SPIN], STAYS),
        ([SYNC.format("0x7f94abfd36b2"), SYNC.format("0x7f94ac0121bb")], WAITS),
        ([LOCK, SPIN, LOCK], STAYS),
        ([GEMM.format("dgemm"), GEMM.format("dgemm_kernel")], MOVES),
        ([GEMM.format("dgemm"), GEMM.format("dgemm")], STAYS),
        ([MODULE.format("conv", 548), MODULE.format("linear", 125)], MOVES),
        ([QUEUE.format(327, 171), QUEUE.format(331, 171)], WAITS),
        ([MPI.format("epoll_wait"), MPI.format("0x7f4")], WAITS),
        (BINDINGS, STAYS),
        ([*BINDINGS, TESTS], WAITS),
        (KERNELS, MOVES),
        ([REDUCE, SPIN], MOVES),
        ([SPIN], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_progress_is_a_difference_that_no_wait_makes(samples: list[str], progress: str) -> None:
    assert compare_samples([MAIN + text for text in samples]) == progress


def test_rank_without_stacks_has_unknown_progress() -> None:
    assert compare_samples(["no stacks: py-spy is not installed"] * 3) == UNKNOWN
    assert compare_samples([MAIN + SPIN, "no stacks: py-spy did not answer within 4 s"]) == UNKNOWN


def test_any_thread_of_a_rank_may_make_progress() -> None:
    waiting, work = MAIN + REDUCE, [WRITER.format("compress", 70), WRITER.format("write", 90)]
    assert compare_samples([waiting + work[0], waiting + work[1]]) == MOVES
    assert compare_samples([waiting + work[0], waiting]) == WAITS, "a thread that has ended is ignored"


FRAMES = st.lists(
    st.sampled_from([REDUCE, SPIN, POLL, LOCK, GEMM.format("a"), QUEUE.format(3, 4)]), min_size=2
)


@given(FRAMES, st.permutations(range(3)))
def test_order_of_the_samples_does_not_matter(samples: list[str], order: list[int]) -> None:
    three = [MAIN + text for text in (samples * 3)[:3]]
    assert compare_samples(three) == compare_samples([three[at] for at in order])


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_output_of_a_tool_is_compared(samples: list[str]) -> None:
    assert compare_samples([MAIN + text for text in samples]) in (MOVES, WAITS, STAYS, UNKNOWN)
