"""Imports click without `inspect`, a third of the time that this takes: click reads docstrings by it.

Imported by `ma_boot.cli`, so before any module of that room imports click.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class Inspect(ModuleType):
    """`inspect` as click uses it at a start and for a help; anything else is taken from the real one."""

    @staticmethod
    def cleandoc(text: str) -> str:
        """The text without the indentation of its lines."""
        first, newline, rest = text.expandtabs().partition("\n")
        if not newline:
            return first.lstrip()
        import textwrap  # only for a help, which wraps lines by it

        return f"{first.lstrip()}\n{textwrap.dedent(rest)}".strip("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("inspect"), name)


if "inspect" not in sys.modules:
    sys.modules["inspect"] = Inspect("inspect")
    import click  # noqa: F401 -- for the modules of `ma_boot.cli`

    del sys.modules["inspect"]
