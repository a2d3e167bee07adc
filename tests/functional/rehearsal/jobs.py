"""Rehearses jobs on a laptop, and reads what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.functional.node import Ended, alive, events_in, eventually

SHAPE = ["--nodes", "2", "--devices-per-node", "2", "--stop-timeout", "5"]
MAPPING = ["--path-mapping", "project/mapping.py", "--obs-root", "obs"]
CHECKPOINTS = {
    "obs": "obs://bucket/ckpt",
    "checkpoint": "iter_{step}/rank_{rank}.bin",
    "restore": "latest",
    "interval": 1,
}


def start(
    laptop: Path,
    *arguments: str,
    delay: str = "0.3",
    errors: int = subprocess.STDOUT,
    more: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a rehearsal; its rank table is complete after `delay` seconds, `more` are variables."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environ = {"PATH": path, "MA_LOG_DIR": "/of/another/job", "MABOOT_VERBOSE": "1", **(more or {})}
    environ["MABOOT_RANK_TABLE_DELAY"] = delay
    argv = [sys.executable, "-m", "ma_boot", "--local", *arguments]
    return subprocess.Popen(argv, cwd=laptop, env=environ, stdout=subprocess.PIPE, stderr=errors)


def end(process: subprocess.Popen[bytes], seconds: float = 60) -> Ended:
    """Waits for the end of a rehearsal."""
    output, _ = process.communicate(timeout=seconds)
    return Ended(process.returncode, output.decode())


def rehearse(laptop: Path, *arguments: str, more: dict[str, str] | None = None) -> Ended:
    """Runs a rehearsal to its end."""
    return end(start(laptop, *arguments, more=more))


def write(laptop: Path, *lines: str) -> str:
    """Makes a training of these lines, in which `rank` is the rank; returns its path."""
    head = ["import os, socket, sys, time", "rank = int(os.environ['RANK_ID'])"]
    (laptop / "project" / "train.py").write_text("\n".join([*head, *lines]) + "\n")
    return "project/train.py"


def with_outputs(laptop: Path, **outputs: object) -> list[str]:
    """The options for a mapping with these outputs."""
    (laptop / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {{'output': {outputs!r}}}\n")
    return ["--path-mapping", "mapping.py", "--obs-root", "obs"]


def node_events(laptop: Path, kind: str) -> list[dict[str, Any]]:
    """The events of this kind of all nodes."""
    files = sorted(laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/modelarts/log/*-events.jsonl"))
    return [event for file in files for event in events_in(file) if event["kind"] == kind]


def job_events(laptop: Path, kind: str) -> list[dict[str, Any]]:
    """The events of this kind of the rehearsal itself."""
    files = laptop.glob("ma_boot-rehearsal/*/log/*-events.jsonl")
    return [event for file in files for event in events_in(file) if event["kind"] == kind]


def last_lines(ended: Ended, nodes: int = 2) -> list[str]:
    """The last line of each node's report."""
    lines = ended.output.splitlines()
    prefixes = [f"[node {node}] " for node in range(nodes)]
    return [[line for line in lines if line.startswith(prefix)][-1][len(prefix) :] for prefix in prefixes]


def processes(laptop: Path) -> list[int]:
    """All processes that run in a directory of the laptop."""
    running = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            inside = os.readlink(f"/proc/{pid}/cwd").startswith(str(laptop))
        except OSError:
            continue
        if inside and alive(int(pid)):
            running.append(int(pid))
    return running


def stopped_with_outputs(laptop: Path, running: subprocess.Popen[bytes], signum: int, code: int) -> None:
    """Stops a rehearsal of four ranks that have written outputs: these are uploaded, and no process is left."""
    sandbox = "ma_boot-rehearsal/*/node-*/home/ma-user/out/*"
    eventually(lambda: len(list(laptop.glob(sandbox))) == 4, "all ranks run")
    running.send_signal(signum)
    ended = end(running)
    assert ended.code == code, ended.output
    assert len(list((laptop / "obs" / "bucket" / "out").iterdir())) == 4
    assert "the job's cause" not in ended.output
    assert processes(laptop) == []


HEAD = ["attempt = int(os.environ['MABOOT_ATTEMPT'])", "print(f'rank {rank} attempt {attempt}', flush=True)"]
AT_ONCE = {"MABOOT_START_SECONDS": "0"}


def restarts(laptop: Path) -> list[int]:
    """Returns the nodes that have started again."""
    return sorted(event["node"] for event in node_events(laptop, "restart"))
