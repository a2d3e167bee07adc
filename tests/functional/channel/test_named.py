"""Seeded hangs and failures of jobs with 4 to 32 nodes: is the right rank named, on every node, and how soon?

The nodes are simulated as `simulated_job` says. `make test-hangs` takes 64 seeds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ma_boot.processes.signals import SignalInbox
from tests.functional.channel.simulated_job import KINDS, Case, case, simulated

SEEDS = 64
FEW = 8
SECONDS = 10.0


def named(case: Case, place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[float, list[str]]:
    """Returns the seconds until all nodes have named a rank, and the wrong names."""
    with simulated(case, place) as nodes:
        began = time.monotonic()
        if case.kind == "late exception":
            right = f"node {case.node}, rank {case.ranks[0]}: ValueError: in {case.ranks[0]}, at train.py:1"
            wrong = [str(cause) for cause in nodes.fail() if cause != right]
            return time.monotonic() - began, wrong
        monkeypatch.setattr("ma_boot.node.observe.rank_stacks.stacks_round.stacks_of", nodes.stacks_of)
        with SignalInbox() as inbox:
            suspects = nodes.hang(inbox)
    ranks = [None] if case.kind == "dead node" else list(case.ranks)
    wrong = [str(who) for who in suspects if not who or who["node"] != case.node or who["rank"] not in ranks]
    return time.monotonic() - began, wrong


def judged(seeds: Iterable[int], place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], float]:
    """Returns the cases in which a node named the wrong rank, and the longest time of a case."""
    wrong, longest = [], 0.0
    for seed in seeds:
        each = case(seed)
        seconds, names = named(each, place, monkeypatch)
        longest = max(longest, seconds)
        print(f"{each}: {seconds:.1f} s{': ' + names[0] if names else ''}", flush=True)
        wrong += [f"{each}: {names[0]}"] if names else []
    return wrong, longest


def test_right_rank_is_named_in_a_case_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few nodes: the time of a case grows with the square of their number."""
    small = {each.kind: each.seed for each in map(case, reversed(range(SEEDS))) if each.nodes <= FEW}
    assert set(small) == set(KINDS)
    wrong, longest = judged(small.values(), tmp_path, monkeypatch)
    assert wrong == []
    assert longest < SECONDS


@pytest.mark.hangs
@pytest.mark.timeout(1200)
def test_right_rank_is_named_in_64_seeded_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, longest = judged(range(SEEDS), tmp_path, monkeypatch)
    print(f"{SEEDS - len(wrong)} of {SEEDS} right, the slowest in {longest:.1f} s")
    assert len(wrong) <= SEEDS * 0.05, wrong
    assert longest < SECONDS
