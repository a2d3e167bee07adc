"""What ma_boot is expected to do about each fault, provided that the training itself succeeds. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from ma_boot.errors import ExitCode
from ma_boot.rehearsal.faults.grammar import Fault

_SURVIVED = 3  # consecutive faults of one request that its retries survive
_MARGIN_SECONDS = 1.0


@dataclass(frozen=True)
class Expected:
    """The end of a job: its exit code, words in the cause, whether every output is in OBS (None: not
    promised), and how many times the platform has started the job."""

    code: int
    cause: str = ""
    uploaded: Optional[bool] = None
    starts: int = 1


@dataclass(frozen=True)
class Patience:
    """The limits, in seconds, after which ma_boot ends a job whose fault is permanent; `ends_hangs` says that
    it stops a run that hangs."""

    stop_timeout: float
    rank_table_timeout: float
    ends_hangs: bool


SUCCESS = Expected(0, "success", True)
_SECOND_START = Expected(0, "success", True, starts=2)
_NO_TABLE = Expected(ExitCode.RANK_TABLE_TIMEOUT, "the rank table was not completed")


def expected(fault: Fault, patience: Patience) -> Optional[Expected]:
    """The end of a job with this fault alone; None where it depends on the training."""
    if fault.stage == "obs":
        return _with_obs_fault(fault)
    return _RULES[fault.kind](fault, patience) if fault.kind in _RULES else None


def _killed(fault: Fault, patience: Patience) -> Expected:
    name = f"SIG{fault.signal or 'KILL'}"
    return Expected(128 + signal.Signals[name], f"rank {fault.rank} was killed by {name}", True)


def _exited(fault: Fault, patience: Patience) -> Expected:
    return Expected(fault.code or 1, f"rank {fault.rank} ended with exit code {fault.code or 1}", True)


def _hung(fault: Fault, patience: Patience) -> Optional[Expected]:
    if fault.lasts is not None:
        return None if patience.ends_hangs else SUCCESS
    return Expected(ExitCode.HUNG, "hung", True) if patience.ends_hangs else None


def _lost(fault: Fault, patience: Patience) -> Expected:
    return Expected(128 + signal.SIGKILL, f"node {fault.node} was killed by SIGKILL")


def _stopped(fault: Fault, patience: Patience) -> Optional[Expected]:
    if fault.grace is not None and fault.grace <= patience.stop_timeout:
        return None
    return Expected(128 + signal.SIGTERM, "SIGTERM", True)


def _table_delayed(fault: Fault, patience: Patience) -> Expected:
    """For a table that is wrong for some time, or for good."""
    if fault.lasts is None or fault.lasts + _MARGIN_SECONDS >= patience.rank_table_timeout:
        return _NO_TABLE
    return SUCCESS


def _with_obs_fault(fault: Fault) -> Optional[Expected]:
    if fault.kind == "obs-slow":
        return SUCCESS
    lasting = fault.times is None or fault.times > _SURVIVED
    if not lasting and fault.kind not in ("obs-403", "obs-404"):
        return SUCCESS
    if fault.method not in (None, "GET", "PUT") or not lasting:
        return None
    if fault.method == "PUT":
        return Expected(ExitCode.OUTPUT_LOST, "not every output was uploaded", False)
    if fault.kind == "obs-404":
        return Expected(ExitCode.INPUT_MISSING, "inputs", True)
    # The targets of the outputs are looked at before the inputs: a fault of all requests shows there first.
    return Expected(ExitCode.STORE_UNAVAILABLE, "inputs" if fault.key else "obs://", True)


_RULES: Dict[str, Callable[[Fault, Patience], Optional[Expected]]] = {
    "kill": _killed,
    "exit": _exited,
    "hang": _hung,
    "flood": lambda fault, patience: SUCCESS,
    "absent": lambda fault, patience: _NO_TABLE,
    "lost": _lost,
    "rescheduled": lambda fault, patience: _SECOND_START,
    "restart": lambda fault, patience: _SECOND_START,
    "stop": _stopped,
    "table-late": _table_delayed,
    "table-never": lambda fault, patience: _NO_TABLE,
    "table-torn": _table_delayed,
    "table-empty": _table_delayed,
    "table-lacks": _table_delayed,
    "table-stale": _table_delayed,
    "table-regresses": lambda fault, patience: SUCCESS,
    "table-rewritten": lambda fault, patience: SUCCESS,
    "table-wrong": lambda fault, patience: Expected(ExitCode.RANK_TABLE_INVALID, "completed, but invalid"),
}
