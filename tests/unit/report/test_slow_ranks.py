"""Slow ranks, by the samples of all nodes of a job."""

from __future__ import annotations

import random

import pytest

from ma_boot.report.page.language import in_both
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, node_with

EVEN = dict.fromkeys(range(8), (1.2, 0.1))  # seconds a step, and cores, which the kernel counts


def nodes(usual: dict[int, tuple[float, float]], samples: int = 12, named: bool = False) -> list[Writer]:
    """Nodes of one rank each, with noise of 1 %, and a first step that compiles on rank 5."""
    written, spread = [], random.Random(1)
    for rank, (seconds, cores) in usual.items():
        node = node_with(rank)
        for turn in range(samples):
            noise = 1 + 0.01 * spread.random()
            step = 90.0 if turn == 0 and rank == 5 else seconds * noise
            node.at(
                10 + 10 * turn, "metrics", ranks={"rank": [rank], "step_time": [step], "cpu": [cores * noise]}
            )
        if named and rank == 3:
            node.at(60, "slow rank", rank=3, step_time=2.0, others=1.2)
        written.append(node)
    return written


def slow(written: list[Writer]) -> list[tuple[object, str, str]]:
    """The node, the rank and the reason of each slow rank."""
    incidents = line_of(*written).all_incidents()
    return [(each.node, each.label, each.text) for each in incidents if each.kind == "slow rank"]


def test_a_rank_whose_steps_are_longer_than_those_of_other_nodes_is_slow() -> None:
    ((node, label, text),) = slow(nodes({**EVEN, 3: (1.9, 0.1)}))
    assert (node, label) == (3, "rank 3")
    assert text.startswith("1.9")
    assert "s a step, the others 1.2" in text


def test_computing_rank_is_slow_where_steps_wait_for_all() -> None:
    ((node, label, text),) = slow(nodes({**EVEN, 3: (1.2, 0.97)}))
    assert (node, label) == (3, "rank 3")
    assert text == "0.98 cores, while the others wait for it with 0.10"


@pytest.mark.parametrize(
    "usual",
    [
        EVEN,
        {**EVEN, 3: (1.2, 0.4)},
        {rank: (1.2, 0.9 + rank / 50) for rank in range(8)},
        {rank: (1.2 + rank / 10, 0.1) for rank in range(8)},
        dict.fromkeys(range(3), (1.2, 0.1)) | {3: (1.2, 0.1)},
        {0: (1.2, 0.1), 1: (9.9, 0.1), 2: (1.2, 0.1)},
        {},
    ],
    ids=["equal", "a little work", "all compute", "all differ", "few", "too few", "none"],
)
def test_no_rank_is_slow(usual: dict[int, tuple[float, float]]) -> None:
    assert slow(nodes(usual)) == []


def test_a_few_samples_are_no_evidence() -> None:
    assert slow(nodes({**EVEN, 3: (1.9, 0.1)}, samples=6)) == []


def test_a_slow_rank_reported_by_its_node_is_not_repeated() -> None:
    (only,) = slow(nodes({**EVEN, 3: (1.9, 0.1)}, named=True))
    assert only == (3, "rank 3", "2.00 s a step, the others 1.20 s")


def test_the_page_says_it_in_both_languages() -> None:
    (incident,) = line_of(*nodes({**EVEN, 3: (1.2, 0.97)})).all_incidents()
    assert in_both(incident.text).zh.startswith("占用 0.98")
