"""Ranks by the environments and the tree of processes."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.scripts.script_rank import Process, RankNumber, find_ranks, read_number

_STARTED = "100"


def process(
    pid: int, parent: int, rank: int | None = None, local: int | None = None, python: bool = True
) -> Process:
    """A process of the job; with a `rank` its environment has numbers."""
    number = None if rank is None else RankNumber(rank, local, None)
    return Process(pid, _STARTED, parent, python, number)


def ranks(*processes: Process) -> list[tuple[int, int]]:
    """The ranks, as pairs of pid and rank."""
    return sorted((one.pid, one.number.rank) for one in find_ranks(processes) if one.number)


@pytest.mark.parametrize(
    ("environ", "number"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, RankNumber(3, 1, 8)),
        ({"RANK_ID": "3", "DEVICE_ID": "1", "RANK_SIZE": "8"}, RankNumber(3, 1, 8)),
        ({"RANK_ID": "3", "DEVICE_ID": "1"}, RankNumber(3, 1, None)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, RankNumber(3, 1, None)),
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, RankNumber(3, None, 4)),
        ({"MS_NODE_ID": "3", "MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4"}, RankNumber(3, None, 4)),
        ({"RANK": "3"}, None),
        ({"RANK_ID": "3"}, None),
        ({"RANK": "x", "LOCAL_RANK": "1"}, None),
        ({"RANK": "", "LOCAL_RANK": "1"}, None),
        ({"LOCAL_RANK": "1"}, None),
        ({}, None),
    ],
)
def test_numbers_are_read_from_the_variables_of_each_launcher(
    environ: dict[str, str], number: RankNumber | None
) -> None:
    assert read_number(environ, {}) == number


def test_variables_that_the_command_was_given_make_no_rank() -> None:
    environ = {"RANK_ID": "0", "DEVICE_ID": "0"}
    assert read_number(environ, environ) is None
    assert read_number({**environ, "RANK_ID": "1"}, environ) == RankNumber(1, 0, None)


def test_first_rank_below_a_platform_that_numbers_its_nodes_by_rank_is_found() -> None:
    """Kubeflow gives each pod `RANK` and `WORLD_SIZE`; torchrun gives its first rank the same `RANK`."""
    of_pod = {"RANK": "0", "WORLD_SIZE": "2"}
    assert read_number({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "16"}, of_pod) == RankNumber(0, 0, 16)
    assert read_number({**of_pod, "OTHER": "1"}, of_pod) is None


def test_ranks_of_a_loop_are_found_without_their_data_loaders() -> None:
    script = process(1, 0, python=False)
    assert ranks(
        script, process(10, 1, 0, 0), process(11, 10, 0, 0), process(20, 1, 1, 1), process(21, 20, 1, 1)
    ) == [(10, 0), (20, 1)]


def test_python_process_below_a_script_of_the_rank_is_the_rank() -> None:
    around, tee = process(10, 1, 0, 0, python=False), process(12, 10, 0, 0, python=False)
    assert ranks(around, process(11, 10, 0, 0), tee) == [(11, 0)]
    assert ranks(around, tee) == [(10, 0)], "the uppermost, if none is Python"


def test_launcher_with_the_number_of_its_node_in_rank_is_no_rank() -> None:
    """`RANK=1 torchrun --node_rank $RANK`: torchrun itself has no local rank."""
    agent = process(5, 1, 1)
    assert ranks(agent) == [(5, 1)], "before its ranks have started"
    assert ranks(agent, process(10, 5, 2, 0), process(11, 5, 3, 1)) == [(10, 2), (11, 3)]


def test_engines_below_a_rank_are_no_ranks() -> None:
    assert ranks(process(10, 1, 3, 0), process(11, 10, 0, 0), process(12, 10, 1, 1)) == [(10, 3)]


def test_engine_below_the_script_of_a_rank_is_not_taken_for_the_rank() -> None:
    around = process(10, 1, 3, 0, python=False)
    assert ranks(around, process(11, 10, 0, 0), process(12, 10, 3, 0)) == [(12, 3)]


def test_two_processes_with_one_rank_are_two_ranks() -> None:
    assert ranks(process(10, 1, 0, 0), process(20, 1, 0, 0)) == [(10, 0), (20, 0)]


def test_a_circle_of_parents_ends() -> None:
    assert ranks(process(10, 11, 0, 0), process(11, 10, 0, 0)) == [(10, 0), (11, 0)]


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 4))
def test_each_started_rank_is_found_once_in_any_order(seed: int, size: int, loaders: int) -> None:
    pids = itertools.count(100)
    processes = [process(1, 0, python=False)]
    expected = []
    for rank in range(size):
        top = process(next(pids), 1, rank, rank)
        expected.append((top.pid, rank))
        processes += [top, *(process(next(pids), top.pid, rank, rank) for _ in range(loaders))]
    random.Random(seed).shuffle(processes)
    assert ranks(*processes) == sorted(expected)
