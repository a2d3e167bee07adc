"""Declaration of options: each option is one field of a group, a named tuple.

The command line, the variables `MABOOT_...`, the help, `docs/options.md` and the command lines that start the
nodes of a rehearsal are made from these fields. To add an option, add a field. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, TypeVar

T = TypeVar("T")
PREFIX = "MABOOT_"


class Bounds(NamedTuple):
    """Limits of a number; `least` itself is not allowed if `is_open`."""

    least: float
    most: float | None = None
    is_open: bool = False
    is_whole: bool = False


class ValueKind(NamedTuple):
    """Form of an option's value.

    `metavar` is the placeholder in the help, such as FILE. `parse` makes a value of a text and raises
    `ValueError` with the expected form; `write` is its inverse. `completes` is `file` or `dir`, which a shell
    completes by itself, or `fault`, which the command line completes.
    """

    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    write: Callable[[Any], str] = str
    choices: tuple[str, ...] = ()
    bounds: Bounds | None = None
    completes: str = ""


TEXT = ValueKind()
FILE = ValueKind("FILE", completes="file")
DIR = ValueKind("DIR", completes="dir")
SECONDS = ValueKind("SECONDS", bounds=Bounds(0))
SECONDS_ABOVE_0 = ValueKind("SECONDS", bounds=Bounds(0, is_open=True))


def choice(*words: str, metavar: str = "") -> ValueKind:
    """One of these words."""
    return ValueKind(metavar, choices=words)


def whole(metavar: str, least: int = 0, most: int | None = None) -> ValueKind:
    """A whole number within bounds."""
    return ValueKind(metavar, bounds=Bounds(least, most, is_whole=True))


class Requirement(NamedTuple):
    """The value that another option must have, and the message if it does not.

    The flag `either` meets it, too.
    """

    option: str
    value: object
    message: str
    either: str = ""


class Option(NamedTuple):
    """An option of `ma_boot`; its name is that of the field that declares it.

    `topic` is its page of the help; the first page also has the `common` ones. `flags` are its words on the
    command line, `--some-name` by default. A `variable_only` option is too rarely needed for the command
    line and is set by its environment variable. `separator` is the expression between several values in the
    variable. `is_derived`: the default depends on other options, so the command line leaves the value None.
    """

    name: str
    default: Any
    help: str
    kind: ValueKind = TEXT
    topic: str = ""
    flags: tuple[str, ...] = ()
    common: bool = False
    variable_only: bool = False
    multiple: bool = False
    separator: str = r":(?!//)"  # a colon, but not the one of obs://
    is_derived: bool = False
    requires: tuple[Requirement, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Its names on the command line, the longest last."""
        return self.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty for an option without a long name."""
        long = self.words[-1]
        return PREFIX + long[2:].replace("-", "_").upper() if long.startswith("--") else ""

    @property
    def is_flag(self) -> bool:
        """True if it takes no value."""
        return isinstance(self.default, bool)

    @property
    def default_text(self) -> str | None:
        """The default as the help shows it; None if there is none to show."""
        if self.is_derived or self.default == "" or not _is_given(self.default):
            return None
        return f"{self.default:g}" if isinstance(self.default, float) else self.kind.write(self.default)

    def arguments(self, value: Any) -> list[str]:
        """The words of a command line that set it to this value; none for a value that means "not given"."""
        if self.variable_only or not _is_given(value):
            return []
        word = self.words[-1]
        if self.is_flag:
            return [word]
        texts = map(str, value) if self.multiple else [self.kind.write(value)]
        return [part for text in texts for part in (word, text)]

    def assignment(self, value: Any) -> dict[str, str]:
        """The environment variable that sets it to this value; empty unless only its variable sets it."""
        if not self.variable_only or not _is_given(value):
            return {}
        if self.is_flag:
            return {self.variable: "1"}
        return {self.variable: ":".join(value) if self.multiple else self.kind.write(value)}


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def option(default: Any, help: str, **facts: Any) -> Any:
    """The default of a field of an option group; `facts` are the other fields of `Option`."""
    return Option("", default, help, **facts)


_GROUPS: dict[type, tuple[Option, ...]] = {}


def option_group(group: type[T]) -> type[T]:
    """Decorator for a named tuple whose fields are declared by `option`: their defaults become plain values.

    Named tuples rather than dataclasses: these would cost each start of ma_boot 9 ms.
    """
    fields: Any = group
    declared = [each._replace(name=name) for name, each in fields._field_defaults.items()]
    _GROUPS[group] = tuple(declared)
    fields._field_defaults = {each.name: each.default for each in declared}
    fields.__new__.__defaults__ = tuple(each.default for each in declared)
    return group


def options_in(group: type) -> tuple[Option, ...]:
    """The options that a group declares, in their order."""
    return _GROUPS[group]


def fill(group: type[T], values: Mapping[str, Any]) -> T:
    """The group whose fields have the values of the options with the same names."""
    return group(**{each.name: values[each.name] for each in options_in(group)})
