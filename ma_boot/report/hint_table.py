"""Table of hints for error texts, `hints.yaml`: read once, when a job or a transfer has failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ma_boot.report.failure import BEFORE_A_NUMBER

FILE = Path(__file__).with_name("hints.yaml")
# Places where a row may match.
ERROR, END, OBS = "error", "end", "obs"
# Levels of rows: one counts where none of a lower level matches.
SPECIAL, GENERAL, LAST = 0, 1, 2


class Hint(NamedTuple):
    """A row of the table: meaning of an error text and its remedy, as templates in English and Chinese."""

    id: str
    codes: tuple[str, ...]
    pattern: str
    where: str
    level: int
    english: str
    chinese: str
    source: str

    @property
    def expression(self) -> str:
        """The regular expression for the row's codes and its pattern."""
        words = [code for code in self.codes if not code.isdigit()]
        numbers = [code for code in self.codes if code.isdigit()]
        return "|".join(
            filter(
                None,
                [
                    rf"\b(?<!-)(?:{'|'.join(words)})(?!\w)" if words else "",
                    rf"\b\w{{0,20}}{BEFORE_A_NUMBER}(?:{'|'.join(numbers)})(?!\d)" if numbers else "",
                    self.pattern,
                ],
            )
        )


@cache
def hint_table() -> tuple[Hint, ...]:
    """Reads the table."""
    import yaml  # slow to import, and most jobs do not fail

    # libyaml reads the table in a tenth of the time, but not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(_hint(row) for row in yaml.load(FILE.read_text(encoding="utf-8"), loader))


def _hint(row: Mapping[str, Any]) -> Hint:
    return Hint(
        id=row["id"],
        codes=tuple(row.get("codes", ())),
        pattern=row.get("pattern", ""),
        where=row.get("where", ERROR),
        level=LAST if row.get("last") else GENERAL if row.get("general") else SPECIAL,
        english=row["en"],
        chinese=row["zh"],
        source=row["source"],
    )


def rows_for(places: Iterable[str]) -> list[tuple[Hint, re.Pattern[str]]]:
    """Returns the rows that may match in one of these places, compiled."""
    wanted = set(places)
    return [(row, re.compile(row.expression)) for row in hint_table() if row.where in wanted]
