"""What ma_boot is expected to do about each fault, in a rehearsal whose training itself is well. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from ma_boot.errors import ExitCode
from ma_boot.rehearsal.faults.grammar import Fault

_TRIES = 3  # that many faults in a row every request survives
_SOON = 1.0


@dataclass(frozen=True)
class Expected:
    """The job's exit code, words of the cause that it names, whether every output is in OBS at the end (None:
    not promised), and how often the platform has started the job by then."""

    code: int
    says: str = ""
    home: Optional[bool] = None
    starts: int = 1


@dataclass(frozen=True)
class Patience:
    """The limits in seconds by which a fault without an end ends the job; `hangs_end`: ma_boot stops a run
    that hangs."""

    stop_timeout: float
    rank_table_timeout: float
    hangs_end: bool


WELL = Expected(0, "success", True)
_AGAIN = Expected(0, "success", True, starts=2)
_NO_TABLE = Expected(ExitCode.RANK_TABLE_TIMEOUT, "the rank table was not completed")


def expected(fault: Fault, patience: Patience) -> Optional[Expected]:
    """The end of a rehearsal with this fault alone; None where it depends on the training."""
    if fault.kind.startswith("obs-"):
        return _of_obs(fault)
    return _RULES[fault.kind](fault, patience) if fault.kind in _RULES else None


def _killed(fault: Fault, patience: Patience) -> Expected:
    name = f"SIG{fault.signal or 'KILL'}"
    return Expected(128 + signal.Signals[name], f"rank {fault.rank} was killed by {name}", True)


def _exited(fault: Fault, patience: Patience) -> Expected:
    return Expected(fault.code or 1, f"rank {fault.rank} ended with exit code {fault.code or 1}", True)


def _hung(fault: Fault, patience: Patience) -> Optional[Expected]:
    if fault.lasts is not None:
        return None if patience.hangs_end else WELL
    return Expected(ExitCode.HUNG, "hung", True) if patience.hangs_end else None


def _lost(fault: Fault, patience: Patience) -> Expected:
    return Expected(128 + signal.SIGKILL, f"node {fault.node} was killed by SIGKILL")


def _stopped(fault: Fault, patience: Patience) -> Optional[Expected]:
    if fault.grace is not None and fault.grace <= patience.stop_timeout:
        return None
    return Expected(128 + signal.SIGTERM, "SIGTERM", True)


def _delayed(fault: Fault, patience: Patience) -> Expected:
    """A table that is wrong for a time, or for ever."""
    if fault.lasts is None or fault.lasts + _SOON >= patience.rank_table_timeout:
        return _NO_TABLE
    return WELL


def _of_obs(fault: Fault) -> Optional[Expected]:
    if fault.kind == "obs-slow":
        return WELL
    lasting = fault.times is None or fault.times > _TRIES
    if not lasting and fault.kind not in ("obs-403", "obs-404"):
        return WELL
    if fault.method not in (None, "GET", "PUT") or not lasting:
        return None
    if fault.method == "PUT":
        return Expected(ExitCode.OUTPUT_LOST, "not every output was uploaded", False)
    return Expected(
        ExitCode.INPUT_MISSING if fault.kind == "obs-404" else ExitCode.STORE_UNAVAILABLE, "inputs", True
    )


_RULES: Dict[str, Callable[[Fault, Patience], Optional[Expected]]] = {
    "kill": _killed,
    "exit": _exited,
    "hang": _hung,
    "flood": lambda fault, patience: WELL,
    "absent": lambda fault, patience: _NO_TABLE,
    "lost": _lost,
    "rescheduled": lambda fault, patience: _AGAIN,
    "restart": lambda fault, patience: _AGAIN,
    "stop": _stopped,
    "table-late": _delayed,
    "table-never": lambda fault, patience: _NO_TABLE,
    "table-torn": _delayed,
    "table-empty": _delayed,
    "table-lacks": _delayed,
    "table-stale": _delayed,
    "table-regresses": lambda fault, patience: WELL,
    "table-rewritten": lambda fault, patience: WELL,
    "table-wrong": lambda fault, patience: Expected(ExitCode.RANK_TABLE_INVALID, "completed, but wrong"),
}
