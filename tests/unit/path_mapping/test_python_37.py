"""What training code imports runs on Python 3.7, the oldest that ModelArts' images have for MindSpore."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Optional

import pytest

from tests.requirement import unavailable
from tests.unit.project.imports import MODULES, ROOMS, ROOT, reached, room_of

GUARDED = (
    "threading.get_native_id",  # `upload_periodically` suppresses its AttributeError
    "ast.unparse",  # of a mapping, which training code does not read
    "hashlib.md5(usedforsecurity)",  # `new_md5` looks at the version
)
PROGRAM = """
import sys
import ma_boot.training
import path_mapping as mox
assert sys.version_info[:2] == (3, 7)
mox.file.write("obs://bucket/in/a", "text")
mox.file.copy_parallel("obs://bucket/in", "data")
mox.file.append("data/a", " and more")
mox.file.copy_parallel("data", "obs://bucket/out/")
mox.file.shift("os", "mox")
with open("obs://bucket/out/a") as file:
    print(file.read())
"""


def python37() -> Optional[str]:
    """An interpreter of Python 3.7, on the PATH or installed by pyenv."""
    candidates = [shutil.which("python3.7"), *map(str, Path.home().glob(".pyenv/versions/3.7.*/bin/python"))]
    for python in filter(None, candidates):
        done = subprocess.run(
            [python, "-c", ""], capture_output=True, check=False
        )  # pyenv's shims may refuse
        if done.returncode == 0:
            return python
    return None


def test_training_code_runs_on_python_37(tmp_path: Path) -> None:
    python = python37()
    if python is None:
        pytest.skip("no Python 3.7 is installed")
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    environ = {"PYTHONPATH": str(ROOT / "ma_boot" / "for_training"), "PYTHONDONTWRITEBYTECODE": "1"}
    environ["PATH_MAPPING_OBS_ROOT"] = str(tmp_path / "root")
    done = subprocess.run(
        [python, "-S", "-c", PROGRAM],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == "text and more\n"


def test_nothing_that_training_code_reaches_needs_more_than_python_37() -> None:
    """By vermin, which knows what each version of Python brought; imports inside functions count, too."""
    if subprocess.run([sys.executable, "-c", "import vermin"], capture_output=True, check=False).returncode:
        unavailable("vermin is not installed")
    entries = ["path_mapping.file", "path_mapping.workers.worker_process"]
    entries += [name for name in MODULES if room_of(name) == "ma_boot.training"]
    names = {name for entry in entries for name in [entry, *reached(entry)]}
    names |= {room_of(name) for name in names} & ROOMS
    files: List[str] = sorted(str(MODULES[name]) for name in names)
    assert len(files) > 40
    done = subprocess.run(
        [
            *(sys.executable, "-c", "import vermin; vermin.main()"),
            *("--target=3.7-", "--violations", "--no-tips"),
            *(word for name in GUARDED for word in ("--exclude", name)),
            *files,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
