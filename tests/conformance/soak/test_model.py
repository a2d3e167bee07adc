"""The models of the soak notice what they are for."""

from __future__ import annotations

import random

import pytest

from tests.conformance.soak.model import ReaderModel, WriterModel
from tests.conformance.soak.mox_model import Operation, World, after, answer, operations, problems


def writers() -> WriterModel:
    """Both have `out/a`, the first one has removed `out/old`, and another client has stored `out/theirs`."""
    model = WriterModel({"w0": "out/", "w1": "out/"})
    for directory, name, content in (("w0", "a", "A0"), ("w1", "a", "A1"), ("w0", "old", "OLD")):
        model.begins(directory, name, content)
        model.has(directory, name, content)
    model.removed("w0", "old")
    model.overwritten("out/theirs", "T")
    return model


@pytest.mark.parametrize(
    ("objects", "named", "expected"),
    [
        ({"out/a": "A0", "out/theirs": "T"}, [], []),
        ({"out/a": "A1", "out/theirs": "T", "elsewhere": "x"}, [], []),
        ({"out/theirs": "T"}, [], ["out/a is missing, and not named"]),
        ({"out/theirs": "T"}, ["out/a: HTTP 500"], []),
        ({"out/theirs": "T"}, ["* the listing failed"], []),
        (
            {"out/a": "half", "out/theirs": "T"},
            [],
            ["out/a has a content that nobody wrote", "out/a is old, and not named"],
        ),
        (
            {"out/a": "A0", "out/theirs": "T", "out/old": "OLD"},
            [],
            ["out/old is still there, though its file was removed"],
        ),
        ({"out/a": "A0", "out/theirs": "T", "out/old": "OLD"}, ["out/x: HTTP 500"], []),
        ({"out/a": "A0"}, [], ["out/theirs, which somebody else has stored, was deleted"]),
    ],
)
def test_objects_of_the_writers_are_modelled(
    objects: dict[str, str], named: list[str], expected: list[str]
) -> None:
    assert writers().problems(objects, named, []) == expected


def test_objects_changed_by_another_client_are_kept_and_reported() -> None:
    model = writers()
    model.overwritten("out/old", "NEW")
    objects = {"out/a": "A0", "out/theirs": "T", "out/old": "NEW"}
    assert model.problems(objects, [], ["w0/old: not deleted"]) == []
    assert model.problems(objects, [], []) == [
        "out/old was kept, as somebody has changed it, and nobody says so"
    ]


def test_files_of_the_reader_are_modelled() -> None:
    model = ReaderModel()
    model.changed("mine", "M")
    objects = {"a": "A", "b": "B"}
    assert model.problems({"a": "A", "b": "B", "mine": "M"}, objects, []) == []
    assert model.problems({"a": "x", "mine": "M"}, objects, ["b: HTTP 500"]) == [
        "a is another one here, and not named"
    ]
    assert model.problems({**objects, "gone": "G"}, objects, []) == [
        "gone is still here, though its object was deleted",
        "mine, which the user has changed, was deleted",
    ]


BEFORE = World({"d0/f0": b"one"}, {"d1/f1": b"two"})


@pytest.mark.parametrize(
    ("doubtful", "actual", "wrong"),
    [
        (None, BEFORE, 0),
        (None, World({"d0/f0": b"on"}, BEFORE.files), 1),
        (Operation("write", "d0/f0", "", 1, 9), BEFORE, 0),
        (Operation("write", "d0/f0", "", 1, 9), World({"d0/f0": b"half"}, BEFORE.files), 1),
        (Operation("rename", "d0/f0", "d2/f2"), World({"d0/f0": b"one", "d2/f2": b"one"}, BEFORE.files), 0),
        (Operation("rename", "d0/f0", "d2/f2"), World({}, BEFORE.files), 1),
        (Operation("move_up", "d1", "d2"), World({"d0/f0": b"one", "d2/f1": b"two"}, {}), 0),
        (Operation("move_up", "d1", "d2"), World({"d0/f0": b"one"}, {}), 1),
    ],
)
def test_objects_of_mox_file_are_modelled(doubtful: Operation | None, actual: World, wrong: int) -> None:
    assert len(problems(BEFORE, doubtful, actual)) == wrong


def test_operations_succeed_one_after_the_other() -> None:
    world, kinds = World({}, {}), set()
    for operation in operations(random.Random(1), world, 300):
        answer(world, operation)
        world = after(world, operation)
        kinds.add(operation.kind)
    assert len(kinds) == 21
