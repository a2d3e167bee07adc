"""Training code as it runs in the training's own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ma_boot

FOR_TRAINING = Path(ma_boot.__file__).parent / "for_training"


def train(program: str, python: str = sys.executable, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs it in a python that sees the standard library and `for_training`, nothing else."""
    preamble = f"import sys; sys.path.insert(0, {str(FOR_TRAINING)!r})\n"
    argv = [python, "-I", "-S", "-B", "-c", preamble + program]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
