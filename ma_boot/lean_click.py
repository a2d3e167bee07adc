"""Imports click without `inspect` and `uuid`, two fifths of the time that this takes.

It reads docstrings by the one, and converts to identifiers, which no option of ours is, by the other.
Imported by `ma_boot.cli`, so before any module of that room imports click.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """Stands for a module of the standard library, which is imported when something else of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def cleandoc(text: str) -> str:
    """As `inspect.cleandoc`: the text without the indentation of its lines."""
    first, newline, rest = text.expandtabs().partition("\n")
    if not newline:
        return first.lstrip()
    import textwrap  # only for a help, which wraps lines by it

    return f"{first.lstrip()}\n{textwrap.dedent(rest)}".strip("\n")


if "click" not in sys.modules:
    inspect, uuid = StandIn("inspect"), StandIn("uuid")
    inspect.cleandoc = cleandoc  # type: ignore[attr-defined]
    uuid.UUID = object  # type: ignore[attr-defined]  # for the head of a class
    missing = {found.__name__: found for found in (inspect, uuid) if found.__name__ not in sys.modules}
    sys.modules.update(missing)
    import click  # noqa: F401 -- for the modules of `ma_boot.cli`

    for name in missing:
        del sys.modules[name]
    del uuid.UUID
