"""Ranks that use CPU without progress are hangs; ranks at work are none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.functional.frameworks.pythons import WITH_TORCH
from tests.functional.node import PROGRAMS, Booting, Ended, Node, eventually

SPINNING = str(PROGRAMS / "spinning.py")


def started(
    place: Path, *ways: str, options: tuple[str, ...] = (), seconds: float = 20
) -> tuple[Node, Booting]:
    """A job whose ranks stop in these ways after three steps."""
    node = Node(place, devices=len(ways))
    node.complete_table()
    detection = ("--hang-timeout", "3", "--hang-action", "stop", "--stop-timeout", "1")
    return node, node.start(*detection, *options, SPINNING, ",".join(ways), str(seconds))


def kinds(node: Node, kind: str) -> int:
    return sum(event["kind"] == kind for event in node.events())


def run(place: Path, *ways: str, options: tuple[str, ...] = (), seconds: float = 20) -> tuple[Node, Ended]:
    node, booting = started(place, *ways, options=options, seconds=seconds)
    return node, booting.end()


def test_single_rank_that_loops_ends_the_job(tmp_path: Path) -> None:
    _, ended = run(tmp_path, "loops")
    assert ended.code == 124
    assert "no new step for " in ended.output
    assert "rank 0 hung, and ma_boot stopped the run" in ended.output


@pytest.mark.parametrize("cause", ["loops", "polls_lock", "prints"])
def test_rank_that_the_others_wait_for_is_named(tmp_path: Path, cause: str) -> None:
    _, ended = run(tmp_path, "waits_for_lock", cause, "waits_for_lock")
    assert (ended.code, "node 0, rank 1 hung, and ma_boot stopped" in ended.output) == (124, True), (
        ended.output
    )


def test_ranks_that_all_loop_are_reported_and_none_is_named(tmp_path: Path) -> None:
    node, booting = started(tmp_path, "loops", "loops")
    booting.until("cannot tell: no rank differs from the others")
    booting.until("the job goes on, despite --hang-action stop")
    eventually(lambda: kinds(node, "hang") == 1, "the hang is recorded")
    booting.signal()
    assert booting.end().code == 143
    assert kinds(node, "hang") == 1


@pytest.mark.parametrize("work", ["evaluates", "writes"])
def test_rank_at_work_without_steps_is_no_hang(tmp_path: Path, work: str) -> None:
    node, ended = run(tmp_path, work, seconds=12)
    assert ended.code == 0, ended.output
    assert kinds(node, "hang") == 0
    assert "no hang: rank 0 at work" in ended.output


CAUSES = ("loops", "polls_lock", "prints")
HANGS_OF_TORCH = 22
HANGS_OF_MPI = 10


def judge_hangs(
    place: Path, seeds: range, most: int, waits: tuple[str, ...], many: str, options: tuple[str, ...]
) -> None:
    """Runs a seeded hang per seed, in which one rank loops, polls or prints, and the others wait for it.

    They wait in one of the ways of `waits`; if more than `most` ranks would poll, in the way `many`.
    """
    right, wrong = 0, []
    for seed in seeds:
        chance = random.Random(seed)
        size = chance.choice((2, 2, 3, 4, 4, 6, 8, 16))
        # A machine with few cores has no time for many that poll.
        ways = [chance.choice(waits) if size <= most else many for _ in range(size)]
        odd = chance.randrange(size)
        ways[odd] = chance.choice(CAUSES)
        _, ended = run(place / str(seed), *ways, options=options)
        named = [line for line in ended.output.splitlines() if " hung, and ma_boot stopped the run" in line]
        is_right = any(f"node 0, rank {odd} hung" in line for line in named)
        right += is_right
        print(f"{seed}: {','.join(ways)}: {named[-1:]}", flush=True)
        if not is_right and any("rank" in line for line in named):
            wrong.append((seed, ways, named))
    assert wrong == []
    assert right >= 0.9 * len(seeds)


@pytest.mark.hangs
@pytest.mark.timeout(3600)
def test_cause_of_hangs_of_torch_that_spin_is_named(tmp_path: Path) -> None:
    """The other ranks sleep in a collective or poll it."""
    options = ("--rendezvous", "torch", "--python", str(WITH_TORCH))
    judge_hangs(tmp_path, range(HANGS_OF_TORCH), 4, ("reduces", "polls_work"), "reduces", options)


@pytest.mark.hangs
@pytest.mark.openmpi
@pytest.mark.timeout(3600)
def test_cause_of_hangs_of_open_mpi_that_spin_is_named(tmp_path: Path) -> None:
    """The other ranks poll in a barrier, for a message or for the end of a request."""
    waits = ("enters_barrier", "receives", "waits_for_request")
    seeds = range(HANGS_OF_TORCH, HANGS_OF_TORCH + HANGS_OF_MPI)
    judge_hangs(tmp_path, seeds, 8, waits, "enters_barrier", ("--rendezvous", "mpi"))
