"""Keys of checkpoints can be read back, and the newest is listed first."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, PartKey, Place, data_name
from ma_boot.node.checkpoints.records.manifest import FORMAT, read_part

ATTEMPTS = st.builds(Attempt, st.integers(1, 999_998), st.from_regex(r"[0-9a-f]{4}", fullmatch=True))
NAMES = st.builds(CheckpointName, ATTEMPTS, st.integers(0, 10**18 - 1), st.integers(1, 999), st.booleans())
PATHS = st.text(min_size=1).filter(lambda text: not text.startswith("/"))
PLACES = st.sampled_from(
    [Place("bucket", ""), Place("bucket", "ckpt/"), Place("bucket", "attempt-000001-beef/")]
)


@given(PLACES, ATTEMPTS, PATHS, st.integers(1, 3), st.data())
def test_a_file_is_traced_back_to_its_node(
    place: Place, attempt: Attempt, path: str, nodes: int, data: st.DataObject
) -> None:
    node, take = data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(1, 3))
    key = place.prefix + data_name(attempt, take, node, nodes, path)
    assert place.attempt_of_file(key) == attempt
    assert place.path_of_file(key, attempt, nodes) == (node, path)


@given(PLACES, NAMES, st.integers(0, 7), st.integers(8, 200_000), st.booleans())
def test_manifest_is_traced_back_to_its_checkpoint(
    place: Place, name: CheckpointName, saver: int, of: int, empty: bool
) -> None:
    part = PartKey(name, saver, of, empty)
    assert place.part_of(place.part(part)) == part


@given(PLACES, NAMES, NAMES)
def test_newest_checkpoint_is_listed_first(
    place: Place, first: CheckpointName, second: CheckpointName
) -> None:
    keys = [place.part(PartKey(name, 0, 1)) for name in (first, second)]
    if first.attempt == second.attempt:
        assert (keys[0] < keys[1]) == (first.order > second.order)
    elif first.attempt.number != second.attempt.number:
        assert (keys[0] < keys[1]) == (first.attempt.number > second.attempt.number)


def test_foreign_keys_are_ignored() -> None:
    place = Place("bucket", "ckpt/")
    strange = [
        "",
        "attempt-000001-beef",
        "attempt-1-beef/x",
        "attempt-000001-BEEF/x",
        "attempt-000001-beef.old/x",
        "x/y",
    ]
    assert [place.attempt_of_file(place.prefix + name) for name in strange] == [None] * len(strange)
    assert [place.living(name) for name in ("alive-x.json", "begin.json", "alive-attempt-1-ab.json")] == [
        None
    ] * 3
    assert place.living("alive-attempt-000001-beef.json") == Attempt(1, "beef")
    assert place.path_of_file("ckpt/attempt-000001-beef/elsewhere", Attempt(1, "beef"), 2) == (
        -1,
        "elsewhere",
    )


def test_key_with_too_many_savers_is_ignored() -> None:
    """Otherwise any writer to the bucket could exhaust the memory of every start."""
    place = Place("bucket", "ckpt/")
    key = "ckpt/.ma_boot/manifests/999998-beef/999999999999999989/part-00000-of-99999999999.json"
    assert list(place.list_checkpoints([key])) == []


def test_infinite_number_in_a_manifest_is_damage() -> None:
    document = json.loads('{"step": 3, "node": Infinity, "nodes": 1}')
    document.update(format=FORMAT, attempt=str(Attempt(1, "beef")), version=1, explicit=True)
    with pytest.raises(CheckpointDamaged, match="infinity"):
        read_part(document)
