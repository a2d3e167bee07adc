"""Runs the tests of a room in a copy of the tree, each time in a child process of its own."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Sequence

import pytest

import tests.conftest  # noqa: F401 -- loads what others wrote; the child loads that of the copy

_VARIABLE = "MABOOT_MUTANT_RUN"  # what the tests start has it: a broken supervisor leaves processes behind
_OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-profile=mutants"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_MEMORY = 8 << 30
_FILE = 2 << 30


def copy_tree(root: Path, copy: Path) -> None:
    """Copies what git knows of, and what is new, as it is on the disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    if copy.exists():
        shutil.rmtree(copy)
    for name in os.fsdecode(listed).split("\0"):
        if name and (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)


def tests_pass(copy: Path, tests: Sequence[str], timeout: float, output: Path) -> bool:
    """Whether the tests pass in the copy within `timeout` seconds; their output goes to a file.

    What others wrote is loaded already: the child has to import our code only.
    """
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            _become_runner(copy, output)
            code = int(pytest.main([*_OPTIONS, "--basetemp", str(copy.parent / "pytest"), *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = _ended(pid, timeout)
    _kill_rest(str(copy))
    return code == 0


def change(file: Path, source: bytes) -> None:
    """Writes the file, with a time of its own: Python takes what it has compiled for the same time and size."""
    seconds = int(file.stat().st_mtime) + 1
    file.write_bytes(source)
    os.utime(file, (seconds, seconds))


def _become_runner(copy: Path, output: Path) -> None:
    os.setsid()
    os.chdir(copy)
    os.environ.update({"PYTHONPATH": str(copy), _VARIABLE: str(copy)})
    sys.path.insert(0, str(copy))
    for name in [
        name for name in sys.modules if name.partition(".")[0] in {"tests", "ma_boot", "path_mapping"}
    ]:
        del sys.modules[name]
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))


def _ended(pid: int, timeout: float) -> int:
    """The exit code of the child; 124 if it takes too long."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 124


def _kill_rest(value: str) -> None:
    entry = f"{_VARIABLE}={value}".encode()
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            if entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
