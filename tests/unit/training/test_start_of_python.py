"""The `sitecustomize` for trainings: it hides none of the environment, and does nothing without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ma_boot

AT_START = Path(ma_boot.__file__).parent / "for_training" / "at_start"


def run(code: str, *paths: Path, **variables: str) -> str:
    environ = {"PYTHONPATH": os.pathsep.join(map(str, [*paths, AT_START])), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_own_module_of_the_environment_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 'yes'\n")
    after = os.pathsep.join(map(str, [AT_START, tmp_path]))
    code = "import sys, sitecustomize; print(sys.own, sitecustomize.__file__)"
    assert run(code, MABOOT_RECORDS=str(tmp_path), PYTHONPATH=after).split() == [
        "yes", str(tmp_path / "sitecustomize.py"),
    ]  # fmt: skip


def test_without_the_directory_no_finder_is_added() -> None:
    count = "import sys; print(sum('Watch' in repr(finder) for finder in sys.meta_path))"
    assert run(count) == "0\n"
    assert run(count, MABOOT_RECORDS="/nowhere") == "1\n"


def test_imports_of_a_training_without_torch_start_no_thread(tmp_path: Path) -> None:
    code = "import json, email, os; print(len(os.listdir('/proc/self/task')))"
    assert run(code, MABOOT_RECORDS=str(tmp_path)) == "1\n"
    assert os.listdir(tmp_path) == []
