"""Message with the failures of a node: writer and reader. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ma_boot.report.cause import (
    ENDED_EARLY,
    LOST_PEER,
    MOST_FAILURES,
    OWN,
    RAISED,
    Cause,
    readable,
    readable_text,
)
from ma_boot.wording import text_in


def failures_body(failures: Sequence[Cause]) -> Mapping[str, Any]:
    """Returns the body of a message with these failures."""
    return {"failures": [failure.fields() for failure in failures]}


def read_failures(node: int, body: Mapping[str, Any], has_rank: Callable[[int, int], bool]) -> list[Cause]:
    """Returns the failures in a peer's message; empty if it is not as `failures_body` writes it.

    A node reports its own ranks only, node 0 those of all nodes: one failure of a third node, or of a rank
    that `has_rank(node, rank)` places elsewhere, makes the whole message invalid.
    """
    rows = body.get("failures")
    failures: list[Cause] = []
    try:
        for row in rows[:MOST_FAILURES] if isinstance(rows, list) else []:
            owner, rank, at, evidence = int(row["node"]), row["rank"], float(row["at"]), int(row["evidence"])
            is_placed = rank is None or (isinstance(rank, int) and has_rank(owner, rank))
            if not is_placed or owner < 0 or (node and owner != node):
                return []
            if not 0 <= at < math.inf or evidence not in (OWN, RAISED, ENDED_EARLY, LOST_PEER):
                return []
            words, place, hint = (text_in(row, name, readable) for name in ("words", "place", "hint"))
            failures.append(
                Cause(
                    owner,
                    rank,
                    int(row["code"]),
                    words=words,
                    at=at,
                    evidence=evidence,
                    place=place,
                    hint=hint,
                    text=text_in(row, "text", readable_text),
                )
            )
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    return failures
