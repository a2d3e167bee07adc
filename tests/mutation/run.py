"""Runs the tests of a room in a copy of the tree: they are collected once, each change is tried in a fork."""

from __future__ import annotations

import gc
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import CodeType, FunctionType
from typing import Callable, List, NoReturn, Optional, Sequence

import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.selection import Recorder, Selection, outer_function

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


class Runner:
    """A plugin of pytest that has collected the tests, and hands itself to `work` instead of running them."""

    def __init__(self, copy: Path, folder: str, work: Callable[[Runner], None]) -> None:
        self._copy = copy
        self._recorded = copy.parent / "calls.json"
        self._recorder = Recorder(copy, folder, self._recorded)
        self._recorder.start()
        self._work = work
        self._session: Optional[pytest.Session] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self._recorder.stop()
        self._work(self)
        return True

    def record(self) -> Selection:
        """Runs all tests on the code as it is."""

        def record_all() -> bool:
            assert self._session is not None
            self._session.config.pluginmanager.register(self._recorder)
            self._session.config.option.maxfail = 0
            self._recorder.start()
            self._run(None)
            self._recorder.write()
            return True

        if not _in_fork(record_all, math.inf, self._copy):
            raise SystemExit("the tests could not be run: output.txt")
        return Selection.read(self._recorded)

    def notices(self, mutant: Mutant, selection: Selection) -> bool:
        """Whether a test fails, or hangs, with the change."""
        file = self._copy / mutant.path
        original = file.read_bytes()
        function = outer_function(original.decode(), mutant.line)
        if function is not None and selection.early(mutant.path, function[1]):
            function = None
        names = selection.of(mutant.path, function and function[1])

        def passes() -> bool:
            if function is None:  # what depends on it cannot be found: everything is loaded again
                self._load_again(names)
            return _patched(file, mutant.source, *function) and self._run(names)

        _change(file, mutant.source.encode())
        try:
            return not _in_fork(passes, selection.patience(names), self._copy)
        finally:
            _change(file, original)

    def _run(self, names: Optional[Sequence[str]]) -> bool:
        assert self._session is not None
        items = list(self._session.items)
        if names is not None:
            order = {name: place for place, name in enumerate(names)}
            items = sorted((one for one in items if one.nodeid in order), key=lambda one: order[one.nodeid])
        for item, following in zip(items, [*items[1:], None]):
            self._session.shouldfail = False  # what `-x` sets
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if names is not None and self._session.testsfailed:
                return False
        return True

    def _load_again(self, names: Sequence[str]) -> NoReturn:
        selected = [f"{self._copy}/{name}" for name in names]
        argv = [sys.executable, "-m", "pytest", *_OPTIONS, "--basetemp", str(self._copy.parent / "again")]
        if len(selected) > 40:  # all of them
            selected = sorted({name.partition("::")[0] for name in selected})
        os.execv(argv[0], [*argv, *selected])


def run_collected(copy: Path, folder: str, tests: Sequence[str], work: Callable[[Runner], None]) -> None:
    """Collects the tests in the copy, in this process, and does the work."""
    os.chdir(copy)
    os.environ.update({"PYTHONPATH": str(copy), _VARIABLE: str(copy)})
    sys.path.insert(0, str(copy))
    for name in [
        name for name in sys.modules if name.partition(".")[0] in {"tests", "ma_boot", "path_mapping"}
    ]:
        if name != "tests" and not name.startswith("tests.mutation"):
            del sys.modules[name]
    sys.modules["tests"].__path__ = [str(copy / "tests")]
    runner = Runner(copy, folder, work)
    pytest.main(
        [*_OPTIONS, "-s", "-qq", "--no-summary", "--basetemp", str(copy.parent / "pytest"), *tests], [runner]
    )


def _in_fork(passes: Callable[[], bool], patience: float, copy: Path) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            output = os.open(copy.parent / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, descriptor in ((null, 0), (output, 1), (output, 2)):
                os.dup2(source, descriptor)
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
            code = 0 if passes() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = _ended(pid, patience)
    _kill_rest(str(copy), {os.getpid()})
    return code == 0


def _patched(file: Path, source: str, name: str, line: int) -> bool:
    """Gives the function that begins at this line the code of the changed source."""
    try:
        whole = compile(source, str(file), "exec")
    except (SyntaxError, ValueError):
        return False
    (new,) = [code for code in _codes(whole) if (code.co_name, code.co_firstlineno) == (name, line)]
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        old = function.__code__
        if (old.co_filename, old.co_name, old.co_firstlineno) == (str(file), name, line):
            function.__code__ = new
    return True


def _codes(code: CodeType) -> List[CodeType]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [*inner, *(deeper for one in inner for deeper in _codes(one))]


def _change(file: Path, source: bytes) -> None:
    """Writes the file, with a time of its own: Python takes what it has compiled for the same time and size."""
    seconds = int(file.stat().st_mtime) + 1
    file.write_bytes(source)
    os.utime(file, (seconds, seconds))


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


def _kill_rest(value: str, spared: set[int]) -> None:
    entry = f"{_VARIABLE}={value}".encode()
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            if pid not in spared and entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
