"""The failures of a node as a message to the other nodes. Pure."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Sequence

from ma_boot.reporting import Cause, readable
from ma_boot.reporting.cause import ENDED_EARLY, LOST_PEER, MOST_FAILURES, OWN, RAISED


def told(failures: Sequence[Cause]) -> Mapping[str, Any]:
    """The failures as a message to other nodes."""
    return {"failures": [failure.fields() for failure in failures]}


def told_by(node: int, body: Mapping[str, Any], own: Sequence[int]) -> List[Cause]:
    """The failures that another node tells; none if they are not as `told` writes them.

    None either if they are about a rank of this node (`own`).
    """
    rows = body.get("failures")
    failures: List[Cause] = []
    try:
        for row in rows[:MOST_FAILURES] if isinstance(rows, list) else []:
            rank, at, evidence = row["rank"], float(row["at"]), int(row["evidence"])
            if not (rank is None or (isinstance(rank, int) and rank >= 0 and rank not in own)):
                return []
            if not 0 <= at < math.inf or evidence not in (OWN, RAISED, ENDED_EARLY, LOST_PEER):
                return []
            texts = [readable(str(row.get(name, ""))) for name in ("words", "place", "hint")]
            failures.append(Cause(node, rank, int(row["code"]), texts[0], at, evidence, *texts[1:]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    return failures
