"""Modules of training code run on Python 3.7, the oldest in ModelArts' images for MindSpore."""

from __future__ import annotations

import subprocess
import sys

from tests.requirement import unavailable
from tests.unit.project.imports import MODULES, ROOMS, reached, room_of

GUARDED = (
    "threading.get_native_id",  # `upload_periodically` suppresses its AttributeError
    "ast.unparse",  # of a mapping, which training code does not read
    "hashlib.md5(usedforsecurity)",  # `new_md5` looks at the version
)


def test_modules_of_training_code_need_no_more_than_python_37() -> None:
    """By vermin, which knows what each version of Python brought; imports inside functions count, too."""
    if subprocess.run([sys.executable, "-c", "import vermin"], capture_output=True, check=False).returncode:
        unavailable("vermin is not installed")
    entries = ["path_mapping.file", "path_mapping.workers.worker_process"]
    entries += [name for name in MODULES if room_of(name) == "ma_boot.training"]
    names = {name for entry in entries for name in [entry, *reached(entry)]}
    names |= {room_of(name) for name in names} & ROOMS
    files: list[str] = sorted(str(MODULES[name]) for name in names)
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
