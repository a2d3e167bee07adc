"""Stacks, causes and figures of events at their limits: what is impossible or too much is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ma_boot.report.timeline.boot_run import hang_stacks, is_figure, job_cause, sample
from ma_boot.report.timeline.events import read_events
from tests.synthetic import Writer
from tests.unit.report.page.seen import run_of


def test_stacks_are_those_of_known_ranks_each_cut() -> None:
    first = {"ranks": [0, 1_000_000, 1_000_001, True, -1, "x", None], "stack": "s" * 4001}
    event = {
        "folded": [first, "none", *({"ranks": [rank], "stack": ""} for rank in range(70))],
        "suspect": {"node": 3, "rank": 27, "why": "w" * 601},
    }
    stacks = hang_stacks(7.0, event)
    assert (stacks.at, stacks.suspect, stacks.why) == (7.0, "node 3, rank 27", "w" * 600)
    assert stacks.label == "rank 27"
    assert stacks.groups[0] == ((0, 1_000_000), "s" * 4000)
    assert len(stacks.groups) == 63, "of 64, one of which is none"
    for nothing in ({}, {"folded": "x", "suspect": "y"}, {"folded": [{"ranks": "x"}], "suspect": {}}):
        assert [group.ranks for group in hang_stacks(7.0, nothing).groups] in ([], [()])
        assert hang_stacks(7.0, nothing)[2:] == ("", "", (), "")


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ({"node": 3, "rank": 27, "words": "ValueError: x"}, "node 3, rank 27: ValueError: x"),
        ({"node": 0, "code": 255}, "node 0: exit code 255"),
        ({"node": 3, "code": 0}, "node 3: exit code 0"),
        ({"node": 3, "code": 256}, ""),
        ({"node": 3}, ""),
        ({"words": "ValueError: x"}, ""),
        ("x", ""),
        (None, ""),
    ],
)
def test_the_cause_of_the_whole_job_is_decoded(cause: Any, text: str) -> None:
    named = job_cause({"cause": cause})
    assert ("" if named is None else str(named)) == text


@pytest.mark.parametrize(
    ("value", "can"),
    [(0, True), (-1.5, True), (1e15 - 1, True), (1e15, False), (-1e15, False), (float("nan"), False),
     (float("inf"), False), (True, False), ("1", False), (None, False)],
)  # fmt: skip
def test_only_finite_numbers_can_be_drawn(value: object, can: bool) -> None:
    assert is_figure(value) is can


def test_figures_have_the_names_of_their_rows_each_cut() -> None:
    ranks: dict[str, Any] = {
        "rank": [0, "n" * 41, 2],
        "loss": [0.5, None, True],
        "cpu": "x",
        "threads": [None, None, None],
        "values": {f"{number}" + "v" * 41: [number] for number in range(9)},
    }
    measured = sample(5.0, {"ranks": ranks, "cards": {"card": [4], "power": [300]}, "host": "x"})
    assert (measured.at, measured.cards, measured.host) == (5.0, {"power": {"4": 300.0}}, {})
    assert measured.ranks["loss"] == {"0": 0.5}
    assert list(measured.ranks)[1:] == [f"{number}" + "v" * 39 for number in range(8)]
    full = sample(5.0, {"ranks": {"rank": ["n" * 41], "loss": [1]}})
    assert full.ranks == {"loss": {"n" * 40: 1.0}}
    assert sample(5.0, {"ranks": {"loss": [1]}}).ranks == {}


def test_of_memory_and_disks_the_used_part_counts() -> None:
    disks: dict[str, Any] = {f"/{number}" + "d" * 60: [number, 100] for number in range(9)}
    disks["/0" + "d" * 60] = []
    disks["/1" + "d" * 60] = [1, None]
    host = {"cpu": 3.5, "received": None, "memory": [7, 8], "disks": disks}
    measured = sample(5.0, {"host": host}).host
    assert (measured["cpu"], measured["memory"]) == ({"": 3.5}, {"": 7.0})
    assert measured["disk"] == {f"/{number}" + "d" * 58: float(number) for number in range(1, 8)}
    assert "received" not in measured


@pytest.mark.parametrize(("more", "figures"), [(0, (10**12, 10**18)), (1, (0, 0))])
def test_an_input_has_its_texts_cut_and_its_possible_figures(more: int, figures: Any) -> None:
    node = Writer(0, 10**12)
    long = "x" * 501
    node.at(0, "job", name="j", host="h" * 101)
    node.at(1, "channel", direction="d" * 21, name="n" * 101, local_dir=long, url=long, files=10**12 + more, bytes=10**18 + more)  # fmt: skip
    run = run_of(node)
    (place,) = run.places
    assert run.host == "h" * 100
    assert [len(text) for text in place[:4]] == [20, 100, 500, 500]
    assert (place[4:6], place.complete) == (figures, True)


def test_a_hundred_inputs_are_kept() -> None:
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    for number in range(101):
        node.at(1, "channel", direction="input", name=f"{number}", complete=False)
    places = run_of(node).places
    assert [place.name for place in places] == [f"{number}" for number in range(100)]
    assert not places[0].complete


@pytest.mark.parametrize(("count", "kept"), [(599, 599), (600, 300), (1200, 400)])
def test_of_very_many_samples_every_second_or_third_is_read(count: int, kept: int) -> None:
    text = "".join(json.dumps({"kind": "metrics", "n": number}) + "\n" for number in range(count))
    other = json.dumps({"kind": "job"}) + "\n"
    file = read_events(other + text)
    assert len(file.events) == kept + 1
    assert (file.events[-1]["n"], file.unreadable) == (count - 1, 0)
