"""The failures of a node as a message to the other nodes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ma_boot.report.cause import ENDED_EARLY, LOST_PEER, MOST_FAILURES, OWN, RAISED, Cause, readable
from ma_boot.wording import text_in


def failures_body(failures: Sequence[Cause]) -> Mapping[str, Any]:
    """The failures as a message to other nodes."""
    return {"failures": [failure.fields() for failure in failures]}


def read_failures(node: int, body: Mapping[str, Any], has_rank: Callable[[int, int], bool]) -> list[Cause]:
    """The failures in another node's message; empty if it is not as `failures_body` writes it.

    Empty, too, if one is of a third node, unless node 0 has sent it, or of a rank that is elsewhere.
    """
    rows = body.get("failures")
    failures: list[Cause] = []
    try:
        for row in rows[:MOST_FAILURES] if isinstance(rows, list) else []:
            owner, rank, at, evidence = int(row["node"]), row["rank"], float(row["at"]), int(row["evidence"])
            right = rank is None or (isinstance(rank, int) and has_rank(owner, rank))
            if not right or owner < 0 or (node and owner != node):
                return []
            if not 0 <= at < math.inf or evidence not in (OWN, RAISED, ENDED_EARLY, LOST_PEER):
                return []
            texts = [text_in(row, name, readable) for name in ("words", "place", "hint")]
            failures.append(Cause(owner, rank, int(row["code"]), texts[0], at, evidence, *texts[1:]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    return failures
