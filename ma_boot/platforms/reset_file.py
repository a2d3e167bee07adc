"""MindCluster's `reset.json`: what it asks of a container whose job recovers without a new one. Pure.

ClusterD and the device plugin write it, and mirror it into the container (Ascend/mind-cluster, taskd).
"""

from __future__ import annotations

import json
from typing import Any, Collection, FrozenSet, List, Mapping, NamedTuple, Optional

from ma_boot.wording import ranks_text

RESET_FILE = "/user/restore/reset/config/reset.json"
_UNSUPPORTED = "and RestartFaultProcess asks to restart that process alone, which ma_boot does not do"


class Reset(NamedTuple):
    """One state of the file: global ranks by their status, and what is asked for.

    `flushing` says that faults are still collected; `round` grows each time that all processes are to start
    anew; `graceful` asks to save a checkpoint and to end; `only_faulty` to restart no process but the faulty.
    """

    faulty: FrozenSet[int] = frozenset()
    unrecovered: FrozenSet[int] = frozenset()
    round: int = 0
    flushing: bool = False
    graceful: bool = False
    only_faulty: bool = False

    def closed_to(self, ranks: Collection[int]) -> str:
        """Why a node with these ranks must not start processes now; empty if it may."""
        if self.flushing:
            return "faults are still being collected (FaultFlushing)"
        waiting = {*self.faulty.intersection(ranks), *self.unrecovered}
        return f"not recovered yet: {ranks_text(waiting)}" if waiting else ""

    def ends(self, ranks: Collection[int], before: Reset) -> str:
        """Why a node with these ranks, started at the state `before`, is to end; empty if it is not."""
        if self.graceful and not before.graceful:
            return "GracefulExit: save a checkpoint and end"
        own = self.faulty.intersection(ranks)
        if not own:
            return ""
        found = f"a fault of {ranks_text(own)} on this node"
        return f"{found}, {_UNSUPPORTED}" if self.only_faulty else found

    def restarts(self, before: Reset) -> str:
        """Why all processes are to start anew, that were started at the state `before`; empty if not."""
        if self.unrecovered:
            return f"{ranks_text(self.unrecovered)} must recover (unrecovered)"
        return f"RetryTime is {self.round}, was {before.round}" if self.round > before.round else ""


def parse_reset(text: str) -> Optional[Reset]:
    """The state in the text; None for what is no whole document, which is a moment of its writing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return Reset(
        faulty=_ranks(found, "fault"),
        unrecovered=_ranks(found, "unrecovered"),
        round=_number(found.get("RetryTime")),
        flushing=found.get("FaultFlushing") is True,
        graceful=_number(found.get("GracefulExit")) == 1,
        only_faulty=found.get("RestartFaultProcess") is True,
    )


def _ranks(found: Mapping[str, Any], status: str) -> FrozenSet[int]:
    listed = found.get("RankList")
    entries: List[Any] = listed if isinstance(listed, list) else []
    named = (entry for entry in entries if isinstance(entry, dict) and entry.get("Status") == status)
    return frozenset(rank for rank in (entry.get("RankId") for entry in named) if type(rank) is int)


def _number(value: Any) -> int:
    return value if type(value) is int else 0
