"""Every kind of fault in a rehearsal of its own: two nodes with two ranks each, inputs and outputs in OBS."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from ma_boot.desk.rehearsal.faults import KINDS
from ma_boot.desk.rehearsal.summary import FILE
from ma_boot.errors import ExitCode
from tests.functional.node import PROGRAMS
from tests.functional.rehearsal.jobs import end, processes, start

pytestmark = [pytest.mark.rehearsals, pytest.mark.timeout(300)]


class Outcome(NamedTuple):
    """The end of a job: its exit code, words in its cause, whether every output is in OBS (None: not promised),
    and how many times the platform has started it."""

    code: int
    cause: str
    uploaded: bool | None = True
    starts: int = 1


SUCCESS = Outcome(0, "success")
AGAIN = Outcome(0, "success", starts=2)
STOPPED = Outcome(143, "SIGTERM")
NO_TABLE = Outcome(ExitCode.RANK_TABLE_TIMEOUT, "the rank table was not completed", None)
REFUSED = Outcome(ExitCode.STORE_UNAVAILABLE, "obs://")  # outputs are looked at first
LOST = Outcome(ExitCode.OUTPUT_LOST, "not every output was uploaded", False)
STALL = ("MABOOT_STALL_TIMEOUT=1",)
STOP_HANG = ("--hang-timeout", "1.5", "--hang-action", "stop", "--stop-timeout", "1")
CASES: tuple[tuple[str, Outcome, tuple[str, ...]], ...] = (
    ("kill rank=1", Outcome(137, "rank 1 was killed by SIGKILL"), ()),
    ("kill rank=3 at=1s", Outcome(137, "rank 3 was killed by SIGKILL"), ()),
    ("kill rank=0 line=5", Outcome(137, "rank 0 was killed by SIGKILL"), ()),
    ("kill rank=1 signal=SEGV line=3", Outcome(139, "rank 1 was killed by SIGSEGV"), ()),
    ("kill rank=2 signal=ABRT at=500ms", Outcome(134, "rank 2 was killed by SIGABRT"), ()),
    ("kill rank=1 signal=TERM at=1s", Outcome(143, "rank 1 was killed by SIGTERM"), ()),
    ("raise rank=1 at=500ms", Outcome(130, "rank 1: KeyboardInterrupt"), ()),
    ("raise rank=2 line=4", Outcome(130, "rank 2: KeyboardInterrupt"), ()),
    ("hang rank=1 at=500ms", Outcome(ExitCode.HUNG, "hung"), STOP_HANG),
    ("hang rank=0 at=500ms for=1s", SUCCESS, ()),
    ("absent node=1", NO_TABLE, ()),
    ("absent node=0", NO_TABLE, ()),
    ("lost node=0 at=2s", Outcome(137, "node 0 was killed by SIGKILL", None), ()),
    ("lost node=1 phase=run", Outcome(137, "node 1 was killed by SIGKILL", None), ()),
    ("lost node=1 phase=rank-table", Outcome(137, "node 1 was killed by SIGKILL", None), ()),
    ("bad-card node=1 at=500ms", Outcome(134, "rank 2 was killed by SIGABRT"), ()),
    ("rescheduled node=1 phase=run", AGAIN, ()),
    ("rescheduled node=0 at=2s", AGAIN, ()),
    ("rescheduled phase=run", AGAIN, ()),
    ("restart phase=run", AGAIN, ()),
    ("restart phase=run signal=TERM", AGAIN, ()),
    ("restart phase=rank-table", AGAIN, ()),
    ("stop phase=job", STOPPED, ()),
    ("stop phase=inputs", STOPPED, ()),
    ("stop phase=rank-table", STOPPED, ()),
    ("stop phase=launch", STOPPED, ()),
    ("stop phase=run", STOPPED, ()),
    ("stop at=3s", STOPPED, ()),
    ("stop phase=outputs", STOPPED, ()),
    ("stop node=1 phase=run", STOPPED, ()),
    ("table-late for=3s", SUCCESS, ()),
    ("table-late for=60m", NO_TABLE, ()),
    ("table-lacks pod=1 for=1s", SUCCESS, ()),
    ("table-lacks pod=1", NO_TABLE, ()),
    ("obs-503 times=2", SUCCESS, ()),
    ("obs-503", REFUSED, (*STALL, "MABOOT_DOWNLOAD_TIMEOUT=3")),
    ("obs-expired", REFUSED, ()),
    ("obs-slow key=data/", SUCCESS, ()),
    ("obs-hang times=1", SUCCESS, STALL),
    ("obs-503 method=PUT times=2", SUCCESS, ()),
    ("obs-expired method=PUT", LOST, ()),
    ("obs-hang method=PUT", LOST, (*STALL, "--upload-timeout", "3")),
    ("disk-full node=1 path=/home/ma-user/data size=8k", Outcome(ExitCode.CANNOT_CREATE, "inputs", None), ()),
    ("disk-full node=0 path=/home/ma-user/modelarts/log size=8k", SUCCESS, ()),
)
# These end the job, so that the training outlasts it.
KILLED = ("kill", "raise", "lost", "stop", "hang", "bad-card")


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(("fault", "outcome", "options"), CASES, ids=[fault for fault, _, _ in CASES])
def test_a_fault_ends_as_it_should(
    laptop: Path, fault: str, outcome: Outcome, options: tuple[str, ...]
) -> None:
    content = os.urandom(16 << 10)
    (laptop / "obs" / "bucket" / "data" / "x").write_bytes(content)
    shutil.copyfile(PROGRAMS / "trivial_training.py", laptop / "project" / "train.py")
    in_outputs = "phase=outputs" in fault
    outlasts = fault.split()[0] in KILLED and outcome != SUCCESS and not in_outputs
    training = (
        "project/train.py",
        "600" if outlasts else "3",  # seconds
        "1000" if in_outputs else "1",  # files of a rank, so that the stop interrupts their upload
        hashlib.sha256(content).hexdigest(), "2", "2",
    )  # fmt: skip
    shape = ("--nodes", "2", "--devices-per-node", "2", "--rank-table-timeout", "6", "--obs-root", "obs")
    # With this timeout, a rank that SIGTERM does not end is noticed.
    patient = () if "--stop-timeout" in options else ("--stop-timeout", "600")
    mapping = ("--path-mapping", "project/mapping.py")
    variables = dict(option.split("=") for option in options if option.startswith("MABOOT_"))
    words = [option for option in options if not option.startswith("MABOOT_")]
    job = start(laptop, *shape, *mapping, *patient, *words, "--fault", fault, *training, more=variables)
    ended = end(job, 240)
    (verdict,) = json.loads(next(laptop.glob(f"ma_boot-rehearsal/*/{FILE}")).read_text())
    assert (verdict["came"], verdict["wrong"]) == (True, []), ended.output
    assert (ended.code, verdict["code"]) == (outcome.code, outcome.code), ended.output
    assert outcome.cause in verdict["cause"]
    assert ended.output.count("the platform starts the job again") == outcome.starts - 1
    if outcome.uploaded is not None and verdict["files"] is not None:
        assert (verdict["lost"] == 0) == outcome.uploaded, ended.output
    assert processes(laptop) == []


def test_every_kind_has_a_case() -> None:
    assert {fault.split()[0] for fault, _, _ in CASES} == set(KINDS)
