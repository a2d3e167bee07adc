"""Log directories of failed jobs for tests of `ma_boot report`, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

STAND_INS = Path(__file__).parent.parent / "stand_ins"
JOB = "modelarts-job-1"
SECRET = "hunter2hunter2"


class Reported(NamedTuple):
    """End of `ma_boot report`."""

    code: int
    output: str
    errors: str


def report(*arguments: str | Path, path: Path | None = None, **variables: str) -> Reported:
    """Runs the command, with programs in `path` before those of the system."""
    environ = {
        "PATH": ":".join([*([str(path)] if path else []), "/usr/bin:/bin"]),
        "HOME": "/nonexistent",
        **variables,
    }
    command = [sys.executable, "-m", "ma_boot", "report", *map(str, arguments)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
    return Reported(ended.returncode, ended.stdout, ended.stderr)


def event(kind: str, at: float, **fields: Any) -> str:
    ns = int((at + 100) * 1e9)
    return json.dumps({"time": 1_700_000_000 + at, "monotonic_ns": ns, "kind": kind, "node": 0, **fields})


def failed_job(place: Path) -> Path:
    """Writes the logs of a node whose rank 1 has failed; returns the event file."""
    place.mkdir(parents=True, exist_ok=True)
    logs = [place / f"{JOB}-proc-rank-{rank}-device-{rank}.txt" for rank in (0, 1)]
    logs[0].write_text("step 1\n")
    logs[1].write_text(f"step 1\nexport WANDB_API_KEY={SECRET}\nRuntimeError: NPU error\n")
    cause = {"node": 0, "rank": 1, "code": 1, "words": "RuntimeError: NPU error", "at": 1.7e9, "evidence": 0,
             "place": "train.py:7"}  # fmt: skip
    starts = [event("start", 1, label=f"rank {n}", rank=n, pid=70 + n, log_file=str(logs[n])) for n in (0, 1)]
    ends = [
        event("exit", 5 + rank, label=f"rank {rank}", rank=rank, pid=70 + rank, code=code,
              signal=None, seconds=4, ended_ns=int(105e9), stopped=rank == 0)
        for rank, code in ((1, 1), (0, 143))
    ]  # fmt: skip
    lines = [
        event("job", 0, name=JOB, nodes=1, host="h", command="ma_boot train.py", program="train.py"),
        event("software", 0, versions={"python": "3.9", "torch-npu": "2.1"}),
        *starts,
        *ends,
        event("job cause", 7, cause=cause),
        event("end", 7, exit_code=1, by="training", cause="rank 1 ended with exit code 1", label="rank 1",
              words="RuntimeError: NPU error", signal=None, doubt=None),
    ]  # fmt: skip
    events = place / f"{JOB}-node-0-events.jsonl"
    events.write_text("\n".join(lines) + "\n")
    (place / f"{JOB}-node-0-failure.json").write_text(json.dumps({"exit_code": 1, "api_key": SECRET}))
    plog(place, rank=1, pid=71, text="[ERROR] HCCL(71,python): failed (EJ0003)\n")
    plog(place, rank=0, pid=70, text="[ERROR] HCCL(70,python): stopped\n")
    return events


def plog(place: Path, *, rank: int, pid: int, text: str) -> Path:
    """Writes a log of CANN."""
    file = place / JOB / "ascend" / "process_log" / f"rank_{rank}" / "debug" / "plog" / f"plog-{pid}_1.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
