"""Rehearsals of jobs with real PyTorch, on two simulated nodes of two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.functional.frameworks.pythons import WITH_TORCH
from tests.functional.node import Ended, events_in

REHEARSAL = ["--local", "-v", "--nodes", "2", "--devices-per-node", "2"]


def rehearse(directory: Path, *arguments: str, **variables: str) -> Ended:
    """Runs a rehearsal with PyTorch's python in a directory."""
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *REHEARSAL, "--python", str(WITH_TORCH), *arguments],
        cwd=directory, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout)


def events(directory: Path, node: int, kind: str) -> list[dict[str, Any]]:
    """The events of a node of the only rehearsal in this directory."""
    (file,) = directory.glob(f"ma_boot-rehearsal/*/node-{node}/home/ma-user/modelarts/log/*-events.jsonl")
    return [event for event in events_in(file) if event["kind"] == kind]
