"""Runs `ma_boot sync` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start(home: Path, way: str, mapping: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    (home / "mapping.yaml").write_text(mapping)
    argv = [sys.executable, "-m", "ma_boot", "sync", way, "mapping.yaml", *options]
    environ = {"PATH": os.environ["PATH"], "MA_VJ_NAME": "ma-job-x", **variables}
    return subprocess.Popen(
        argv, cwd=home, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def sync(
    home: Path, way: str, mapping: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    process = start(home, way, mapping, *options, **variables)
    output, _ = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, output)
