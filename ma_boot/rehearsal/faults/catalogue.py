"""The catalogue of `--fault all`. Pure."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import Optional, Tuple

from ma_boot.errors import ExitCode
from ma_boot.rehearsal.faults.expectations import SUCCESS, Expected

TABLE_SECONDS = 6.0  # --rank-table-timeout of all cases, since some wait for a table that never comes
TRIVIAL_TRAINING = os.path.join(os.path.dirname(__file__), "trivial_training.py")


@dataclass(frozen=True)
class Case:
    """One rehearsal: its `--fault`, and further options; `moves` if it needs inputs and outputs in OBS.

    `expected` is set where the fault's own rule leaves the outcome open.
    """

    fault: str
    options: Tuple[str, ...] = ()
    moves: bool = False
    expected: Optional[Expected] = None


_STALL = ("--stall-timeout", "1")
_SHORT_DOWNLOAD = (*_STALL, "--download-timeout", "3")
_SHORT_UPLOAD = (*_STALL, "--upload-timeout", "3")
_STOP_HANG = ("--hang-timeout", "1.5", "--hang-action", "stop", "--stop-timeout", "1")
_NO_SPACE = Expected(ExitCode.CANNOT_CREATE, "inputs")

CASES: Tuple[Case, ...] = (
    # ranks
    Case("kill rank=1"),
    Case("kill rank=3 at=1s"),
    Case("kill rank=0 line=5"),
    Case("kill rank=1 signal=SEGV line=3"),
    Case("kill rank=2 signal=ABRT at=500ms"),
    Case("kill rank=1 signal=TERM at=1s"),
    Case("exit rank=1 code=3 at=500ms"),
    Case("exit rank=2 code=255 line=4"),
    Case("hang rank=1 at=500ms", _STOP_HANG),
    Case("hang rank=0 at=500ms for=1s"),
    Case("flood rank=1 size=32m at=500ms"),
    # nodes
    Case("absent node=1"),
    Case("absent node=0"),
    Case("lost node=0 at=2s"),
    Case("lost node=1 phase=run"),
    Case("lost node=1 phase=rank-table"),
    Case("rescheduled node=1 phase=run"),
    Case("rescheduled node=0 at=2s"),
    Case("rescheduled phase=run"),
    Case("restart phase=run"),
    Case("restart phase=run signal=TERM"),
    Case("restart phase=rank-table"),
    # stops
    Case("stop phase=job"),
    Case("stop phase=inputs", moves=True),
    Case("stop phase=rank-table"),
    Case("stop phase=launch"),
    Case("stop phase=run"),
    Case("stop at=3s"),
    Case("stop phase=outputs", moves=True),
    Case("stop node=1 phase=run"),
    # the rank table
    Case("table-late for=3s"),
    Case("table-late for=60m"),
    Case("table-never"),
    Case("table-never node=1"),
    Case("table-torn for=1s"),
    Case("table-torn"),
    Case("table-empty for=1s"),
    Case("table-regresses for=1s"),
    Case("table-lacks pod=1 for=1s"),
    Case("table-lacks pod=1"),
    Case("table-stale for=1s"),
    Case("table-stale"),
    Case("table-wrong"),
    Case("table-rewritten for=1s"),
    # OBS
    Case("obs-403", moves=True),
    Case("obs-404 key=data/", moves=True),
    Case("obs-503 times=2", moves=True),
    Case("obs-503", _SHORT_DOWNLOAD, moves=True),
    Case("obs-500 times=1", moves=True),
    Case("obs-expired", moves=True),
    Case("obs-reset key=data/ times=2", moves=True),
    Case("obs-cut key=data/ times=2", moves=True),
    Case("obs-corrupt key=data/ times=1", moves=True),
    Case("obs-slow key=data/", moves=True),
    Case("obs-stall key=data/ times=1", _STALL, moves=True),
    Case("obs-hang times=1", _STALL, moves=True),
    Case("obs-503 method=PUT times=2", moves=True),
    Case("obs-403 method=PUT", moves=True),
    Case("obs-hang method=PUT", _SHORT_UPLOAD, moves=True),
    # disks
    Case("disk-full node=1 path=/home/ma-user/data size=8k", moves=True, expected=_NO_SPACE),
    Case("disk-full node=0 path=/home/ma-user/modelarts/log size=8k", expected=SUCCESS),
)
