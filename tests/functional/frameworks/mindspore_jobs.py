"""Rehearsals of jobs with real MindSpore, on simulated nodes of two ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.functional.frameworks.pythons import WITH_MINDSPORE
from tests.functional.node import Ended, events_in


def rehearse(directory: Path, nodes: int, *arguments: str) -> Ended:
    """Runs a rehearsal with MindSpore's python in a directory."""
    local = ["--local", "-v", "--nodes", str(nodes), "--devices-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *local, "--python", str(WITH_MINDSPORE), *arguments],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout)


def events(directory: Path, kind: str, node: int = 0) -> list[dict[str, Any]]:
    """The events of a node of the newest rehearsal in this directory."""
    files = directory.glob(f"ma_boot-rehearsal/*/node-{node}/home/ma-user/modelarts/log/*-events.jsonl")
    newest = max(files, key=lambda file: file.stat().st_mtime)
    return [event for event in events_in(newest) if event["kind"] == kind]
