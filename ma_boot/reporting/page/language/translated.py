"""What the tool itself says in events, in both languages. Pure.

The translations are in `templates/chinese.txt`. Its patterns are no regular expressions, which take
milliseconds to be compiled at the end of a job. A text that no pattern knows stays as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import List, Optional, Tuple

from ma_boot.reporting.page.language.words import Text

MOST_DEPTH = 3
_HINT = "  -> "


def in_both(text: str, depth: int = MOST_DEPTH) -> Text:
    """A text of the tool with its translation, of several lines each."""
    if "\n" in text:
        parts = [in_both(line, depth) for line in text.split("\n")]
        return Text(text, "\n".join(part.zh for part in parts))
    if text.startswith(_HINT):
        return Text(text, _HINT + hint_in_both(text[len(_HINT) :]).zh)
    for english, chinese in _catalogue()[0]:
        kept = _kept(english.split("{}"), text)
        if kept is not None:
            shown = [in_both(part, depth - 1).zh for part in kept] if depth else kept
            return Text(text, chinese.format(*shown))
    return Text(text, text)


def hint_in_both(text: str) -> Text:
    """A hint, which may follow the text that it is for and a colon."""
    for begin, chinese in _catalogue()[1]:
        at = text.find(begin)
        if at >= 0:
            return Text(text, text[:at] + chinese)
    return Text(text, text)


Pairs = List[Tuple[str, str]]


@cache
def _catalogue() -> Tuple[Pairs, Pairs]:
    """The translations of patterns, and of hints by how they begin."""
    text = (Path(__file__).parents[1] / "templates" / "chinese.txt").read_text(encoding="utf-8")
    patterns, hints = (
        [(english, chinese) for english, chinese in zip(lines[::3], lines[1::3])]
        for part in text.split("\n# ")
        for lines in [part.split("\n")[2:]]
    )
    return patterns, hints


def _kept(parts: List[str], text: str) -> Optional[List[str]]:
    """What stands in the gaps between the parts, none of it empty; None if the text is another one."""
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return None
    rest, found = text[len(parts[0]) :], []
    for number, part in enumerate(parts[1:], 2):
        at = len(rest) - len(part) if number == len(parts) else rest.find(part)
        if at <= 0:
            return None
        found.append(rest[:at])
        rest = rest[at + len(part) :]
    return found if not rest else None
