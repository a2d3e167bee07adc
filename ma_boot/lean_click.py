"""Imports click without `inspect`, `uuid` and `gettext`, half of the time that this takes.

It reads docstrings by the first, converts to identifiers, which no option of ours is, by the second, and
looks for translations of its messages by the third: our own have none. Imported by `ma_boot.cli`, so before
any module of that room imports click.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """Stands for a module of the standard library, which is imported when something else of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import itself looks for
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


def cleandoc(text: str) -> str:
    """As `inspect.cleandoc`: the text without the indentation of its lines."""
    first, newline, rest = text.expandtabs().partition("\n")
    if not newline:
        return first.lstrip()
    import textwrap  # only for a help, which wraps lines by it

    return f"{first.lstrip()}\n{textwrap.dedent(rest)}".strip("\n")


def untranslated(message: str) -> str:
    """As `gettext.gettext` where there is no translation."""
    return message


def counted(one: str, more: str, count: int) -> str:
    """As `gettext.ngettext` where there is no translation."""
    return one if count == 1 else more


if "click" not in sys.modules:
    inspect, uuid, gettext = StandIn("inspect"), StandIn("uuid"), StandIn("gettext")
    inspect.cleandoc = cleandoc  # type: ignore[attr-defined]
    uuid.UUID = object  # type: ignore[attr-defined]  # for the head of a class
    gettext.gettext, gettext.ngettext = untranslated, counted  # type: ignore[attr-defined]
    stand_ins = (inspect, uuid, gettext)
    missing = {found.__name__: found for found in stand_ins if found.__name__ not in sys.modules}
    sys.modules.update(missing)
    import click  # noqa: F401 -- for the modules of `ma_boot.cli`

    for name in missing:
        del sys.modules[name]
    del uuid.UUID
