"""Small pieces of HTML; all text that comes from outside is escaped here. Pure."""

from __future__ import annotations

import html
from typing import Sequence

from ma_boot.reporting.page.words import Text
from ma_boot.reporting.timeline import printable


def escaped(text: str) -> str:
    """The text as it may stand in HTML, also in an attribute."""
    return html.escape(printable(text))


def both(text: Text) -> str:
    """The text in both languages, of which the page shows one."""
    if text.en == text.zh:
        return escaped(text.en)
    return (
        f'<span class="en">{escaped(text.en)}</span><span class="zh" lang="zh-CN">{escaped(text.zh)}</span>'
    )


def section(name: str, heading: Text, body: str, note: str = "") -> str:
    """A part of the page with its heading; empty where there is nothing in it."""
    if not body:
        return ""
    return f'<section id="{name}"><h2>{both(heading)}{note}</h2>{body}</section>'


def table(head: Sequence[Text], rows: Sequence[Sequence[str]]) -> str:
    """A table; its cells are HTML."""
    titles = "".join(f"<th>{both(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'
        if rows
        else ""
    )


def folded(summary: str, body: str, opened: bool = False) -> str:
    """A part that opens at a click, without a script too; both are HTML."""
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{body}</details>"


def ranges(numbers: Sequence[int]) -> str:
    """`0-3, 8, 10-15` for whole numbers in order."""
    parts = []
    start = previous = None
    for number in [*sorted(set(numbers)), None]:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}–{previous}")
        start = previous = number
    return ", ".join(parts)
