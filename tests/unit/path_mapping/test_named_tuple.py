"""A class of values is the one that `typing.NamedTuple` would make of it."""

from __future__ import annotations

import copy
import inspect
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


class Address(named_tuple.NamedTuple):
    """As many fields, so the same template, but other names and one default."""

    host: str
    port: int
    family: str = "inet"


class Sub(Ours):
    """A class of values may have heirs."""


def test_its_fields_defaults_and_documentation_are_those_of_typing() -> None:
    for about in ("_fields", "_field_defaults", "__doc__", "__module__", "__slots__"):
        assert getattr(Ours, about) == getattr(Theirs, about), about
    assert get_type_hints(Ours) == get_type_hints(Theirs)
    assert list(inspect.signature(Ours).parameters) == list(inspect.signature(Theirs).parameters)


def test_a_value_is_that_of_typing() -> None:
    ours, theirs = Ours("a", ready=True), Theirs("a", ready=True)
    assert tuple(ours) == tuple(theirs) == ("a", None, True)
    assert (ours.name, ours.rank, ours.ready) == (theirs.name, theirs.rank, theirs.ready)
    assert (hash(ours), repr(ours)) == (hash(theirs), repr(theirs).replace("Theirs", "Ours"))
    assert tuple(ours._replace(rank=3)) == tuple(theirs._replace(rank=3)) == ("a", 3, True)
    assert tuple(Ours._make(["b", 2, True])) == tuple(Theirs._make(["b", 2, True]))
    assert ours._asdict() == theirs._asdict()
    assert not hasattr(ours, "__dict__")


def test_classes_of_as_many_fields_keep_their_own_names_and_defaults() -> None:
    there = Address("10.0.0.1", port=80)
    assert (there.host, there.port, there.family) == ("10.0.0.1", 80, "inet")
    assert not hasattr(there, "rank")
    assert Ours("a", 80).rank == 80


def test_an_heir_is_of_its_own_class() -> None:
    assert repr(Sub("a", 1)._replace(rank=2)) == "Sub(name='a', rank=2, ready=False)"
    assert type(Sub.of("a")) is Sub


def test_it_keeps_its_methods_and_is_copied_whole() -> None:
    assert Ours.of("a").title == "pod a"
    for copied in (pickle.loads(pickle.dumps(Ours("a"))), copy.deepcopy(Ours("a")), copy.copy(Ours("a"))):
        assert copied == Ours("a")
        assert type(copied) is Ours


def test_it_is_changed_by_copy_replace() -> None:
    assert Ours("a").__replace__(rank=3) == Ours("a", 3)  # type: ignore[attr-defined]  # what copy.replace calls


@pytest.mark.parametrize("arguments", [(), ("a", 1, True, "more")])
def test_missing_and_other_arguments_are_refused(arguments: Any) -> None:
    with pytest.raises(TypeError):
        Ours(*arguments)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'port'"):
        Address("10.0.0.1")  # type: ignore[call-arg]


@pytest.mark.parametrize("values", [["a"], ["a", 1, True, "more"]])
def test_as_many_values_as_fields_make_one(values: Any) -> None:
    with pytest.raises(TypeError, match=f"Ours: expected 3 values, found {len(values)}"):
        Ours._make(values)


def test_a_field_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="Ours has no field pod"):
        Ours("a")._replace(pod="b")  # type: ignore[call-arg]


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Ours("a").name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Ours("a").other = "b"  # type: ignore[attr-defined]
