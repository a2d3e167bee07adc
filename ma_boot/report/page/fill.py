"""Fills the templates of the page, which are files of HTML; all that is filled in is escaped.

Also what several parts of the page have in common: tables, boxes of text, notices.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from ma_boot.report.page.language import Text

TEMPLATES = Path(__file__).with_name("templates")
# As html.escape, which comes with a table of 2,231 entities.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


class Html(str):
    """A text that is HTML already, and is filled in as it is."""

    __slots__ = ()


NOTHING = Html("")


def fill(template: str, /, **values: object) -> Html:
    """The template with these values in place of its `{names}`: HTML as it is, anything else escaped.

    A `Text` becomes both languages. Raises `KeyError` for a name without a value.
    """
    return Html(_templates()[template].format_map(_Shown(values)))


def joined(parts: Iterable[Html], between: str = "") -> Html:
    """Several pieces of HTML in their order."""
    return Html(between.join(parts))


def shown(value: object) -> Html:
    """A value as HTML."""
    if isinstance(value, Html):
        return value
    if not isinstance(value, Text):
        return Html(str(value).translate(_ESCAPED))
    return shown(value.en) if value.en == value.zh else fill("both", en=value.en, zh=value.zh)


def table(names: Sequence[Text], rows: Iterable[Sequence[object]]) -> Html:
    """A table with these columns."""
    columns = joined(fill("name-of-column", name=name) for name in names)
    lines = (fill("row", cells=joined(fill("cell", value=value) for value in row)) for row in rows)
    return fill("table", names=columns, rows=joined(lines, "\n"))


def folded_table(heading: Text, names: Sequence[Text], rows: Sequence[Sequence[object]]) -> Html:
    """A table below a heading that opens it; nothing without rows."""
    return fill("each", heading=heading, table=table(names, rows)) if rows else NOTHING


def box(text: str) -> Html:
    """A text that opens at its end and can be copied."""
    return fill("box", text=text)


def notice(en: str, zh: str) -> Html:
    """A line that says what the page does not show."""
    return fill("notice", text=Text(en, zh))


class _Shown(dict[str, object]):
    """The values of a template: each becomes HTML where it is asked for."""

    def __getitem__(self, name: str) -> Html:
        return shown(super().__getitem__(name))


@cache
def _templates() -> Mapping[str, str]:
    """The page, and the fragments that it consists of, by name."""
    _, *parts = re.split(r"<!-- ([a-z-]+) -->\n", _text("fragments.html"))
    fragments = {name: text[:-1] for name, text in zip(parts[::2], parts[1::2])}
    return {"page": _text("page.html"), **fragments}


@cache
def files() -> Mapping[str, Html]:
    """Style sheet and scripts of the page, and the hashes by which its policy allows these scripts alone."""
    scripts = {name: Html(_text(f"{name}.js")) for name in ("choose_language", "behaviour")}
    digests = (sha256(script.encode()).digest() for script in scripts.values())
    hashes = (f"'sha256-{b2a_base64(digest, newline=False).decode()}'" for digest in digests)
    return {"style": Html(_text("page.css")), "script_hashes": Html(" ".join(hashes)), **scripts}


def _text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
