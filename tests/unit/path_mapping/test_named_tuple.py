"""A class of values is the one that `typing.NamedTuple` would make of it."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any, Optional, get_type_hints

import pytest

from path_mapping import named_tuple


class Ours(named_tuple.NamedTuple):
    """A pod."""

    name: str
    rank: Optional[int] = None
    ready: bool = False

    @property
    def title(self) -> str:
        return f"pod {self.name}"

    @classmethod
    def of(cls, name: str) -> Ours:
        return cls(name)


class Theirs(typing.NamedTuple):
    """A pod."""

    name: str
    rank: Optional[int] = None
    ready: bool = False


def test_its_fields_defaults_and_documentation_are_those_of_typing() -> None:
    for about in ("_fields", "_field_defaults", "__doc__", "__module__", "__bases__"):
        assert getattr(Ours, about) == getattr(Theirs, about), about
    assert get_type_hints(Ours) == get_type_hints(Theirs)


def test_a_value_is_that_of_typing() -> None:
    ours, theirs = Ours("a", ready=True), Theirs("a", ready=True)
    assert tuple(ours) == tuple(theirs) == ("a", None, True)
    assert (hash(ours), repr(ours)) == (hash(theirs), repr(theirs).replace("Theirs", "Ours"))
    assert tuple(ours._replace(rank=3)) == tuple(theirs._replace(rank=3))


def test_it_keeps_its_methods_and_is_copied_whole() -> None:
    assert Ours.of("a").title == "pod a"
    for copied in (pickle.loads(pickle.dumps(Ours("a"))), copy.deepcopy(Ours("a"))):
        assert copied == Ours("a")
        assert type(copied) is Ours


@pytest.mark.parametrize("arguments", [(), ("a", 1, True, "more")])
def test_missing_and_other_arguments_are_refused(arguments: Any) -> None:
    with pytest.raises(TypeError):
        Ours(*arguments)


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Ours("a").name = "b"  # type: ignore[misc]
