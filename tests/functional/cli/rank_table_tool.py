"""Runs `ma_boot rank-table` as a program."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple


class Run(NamedTuple):
    """Exit code and output of a program."""

    code: int
    output: str
    errors: str


def run(*argv: str, given: str = "", environ: dict[str, str] | None = None) -> Run:
    """Runs a program, with text for its standard input."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, env=environ, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


def tool(*arguments: str, given: str = "", path: str = "/usr/bin:/bin") -> Run:
    """Runs `ma_boot rank-table`."""
    argv = (sys.executable, "-m", "ma_boot", "rank-table", *arguments)
    return run(*argv, given=given, environ={"PATH": path})
