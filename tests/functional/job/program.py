"""Runs `ma_boot` in a project directory as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.functional.node import Ended


def ma_boot(project: Path, *arguments: str, more: dict[str, str] | None = None) -> Ended:
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(project), **(more or {})}
    argv = [sys.executable, "-m", "ma_boot", *arguments]
    done = subprocess.run(
        argv, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100
    )
    return Ended(done.returncode, done.stdout.decode())
