"""Imports click and some of the standard library without what they import only for other programs.

What is left out is imported when something of it is used. Both functions are called before anything else of
ours imports these modules.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Iterator


class StandIn(ModuleType):
    """Stands for a module of the standard library, which is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import itself looks for
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


def import_click() -> None:
    """Imports click without `inspect`, `uuid` and `gettext`, half of the time that this takes.

    It reads docstrings by the first, converts to identifiers, which no option of ours is, by the second, and
    looks for translations of its messages by the third: our own have none.
    """
    if "click" in sys.modules:
        return
    inspect, uuid, gettext = StandIn("inspect"), StandIn("uuid"), StandIn("gettext")
    inspect.cleandoc = cleandoc  # type: ignore[attr-defined]
    uuid.UUID = object  # type: ignore[attr-defined]  # for the head of a class
    gettext.gettext, gettext.ngettext = untranslated, counted  # type: ignore[attr-defined]
    with _standing_in(inspect, uuid, gettext):
        import click  # noqa: F401
    del uuid.UUID


def import_library() -> None:
    """Imports `pathlib`, `shutil` and `subprocess`, which every job needs, without half of what they import.

    The first makes URLs of paths by `urllib.parse`, the second looks whether there are compressors, for
    archives, and the third asks `locale` how text is encoded.
    """
    urls = StandIn("urllib.parse")
    urls.quote_from_bytes = quote_from_bytes  # type: ignore[attr-defined]
    with _standing_in(urls, *map(StandIn, ("bz2", "locale", "lzma", "zlib"))):
        import pathlib  # noqa: F401
        import shutil  # noqa: F401
        import subprocess  # noqa: F401


@contextmanager
def _standing_in(*stand_ins: StandIn) -> Iterator[None]:
    """Within it, an import finds these, but for modules that were imported before."""
    missing = {found.__name__: found for found in stand_ins if found.__name__ not in sys.modules}
    sys.modules.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


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


def quote_from_bytes(path: bytes) -> str:
    """That of `urllib.parse`."""
    return import_module("urllib.parse").quote_from_bytes(path)  # type: ignore[no-any-return]
