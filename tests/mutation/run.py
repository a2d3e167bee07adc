"""Runs the tests of a room in the copy of the tree: they are collected once, each change is tried in a fork."""

from __future__ import annotations

import gc
import hashlib
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType
from typing import Callable, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import pytest

from ma_boot.processes import adopt_orphans
from tests.mutation.lines import CHILDREN, Line, Lines
from tests.mutation.mutants import Mutant
from tests.mutation.selection import Recorded, Selection, parsed
from tests.mutation.tree import change
from tests.survivors import descendants, end_survivors

_OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-profile=mutants"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-m", "not mindspore and not torch and not kill and not rehearsals and not hangs"),  # as `make test`
)
_MEMORY = 8 << 30
_FILE = 2 << 30
_FIRST = 6  # tests
_PATIENCE = 15.0  # seconds, and five times what the test took


class Recorder:
    """A plugin of pytest: the seconds of each test, and what it runs of the room."""

    def __init__(self, copy: Path, folder: str) -> None:
        self._children = copy.parent / CHILDREN
        self._lines: Set[Line] = set()
        self._tracer = Lines(str(copy), folder, lambda path, line: self._lines.add((path, line)))
        self._seconds: Dict[str, float] = defaultdict(float)
        self._failed: Set[str] = set()
        self._ran: Dict[str, Set[Line]] = {}

    def start(self) -> None:
        self._tracer.start()

    def stop(self) -> Set[Line]:
        self._tracer.stop()
        return set(self._lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._tracer.forget()
        self._lines.clear()
        self._children.write_bytes(b"")
        try:
            return (yield)
        finally:
            rows = [row.rpartition(":") for row in self._children.read_text().splitlines()]
            whole = {(path, int(line)) for path, _, line in rows if line.isdecimal()}  # a limit may tear one
            self._ran[item.nodeid] = self._lines | whole
            self._children.unlink()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:  # because it is slow while it is watched
            self._failed.add(report.nodeid)

    def recorded(self) -> Dict[str, Recorded]:
        """Of the tests that did not fail; one that looks at a constant runs no line."""
        return {
            name: Recorded(self._seconds[name], lines)
            for name, lines in self._ran.items()
            if name not in self._failed
        }


class Runner:
    """A plugin of pytest that has collected the tests, and hands itself to `work` instead of running them."""

    def __init__(self, copy: Path, folder: str, work: Callable[[Runner], None]) -> None:
        self._copy = copy
        self._folder = folder
        self._recorder = Recorder(copy, folder)
        self._recorder.start()
        self._work = work
        self._functions: Mapping[Tuple[str, str, int], List[FunctionType]] = {}
        self._deadline = mmap.mmap(-1, 8)  # of the test that a fork is at
        self._at = copy.parent / "at"  # its name
        self._session: pytest.Session
        self.selection: Selection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self.selection = Selection(parsed(self._copy, self._folder), self._recorder.stop())
        self._record()
        self._functions = _functions_below(f"{self._copy}/{self._folder}/")
        self._work(self)
        return True

    def at(self) -> str:
        """The last test that was begun with a change; empty if none was."""
        return self._at.read_text(encoding="utf-8")

    def notices(self, mutant: Mutant) -> bool:
        """Whether a test fails, or hangs, with the change."""
        self._at.write_text("")
        file = self._copy / mutant.path
        original = file.read_bytes()
        function = self.selection.function(mutant.path, mutant.line)
        names = self.selection.of(mutant.path, mutant.line)
        if not names:
            return False

        def passes() -> bool:
            if function is None or not self._patch(file, mutant.source, *function):
                # the first ones alone, since most of the time goes into importing the files of all
                return self._load_again(names[:_FIRST]) and self._load_again(names[_FIRST:])
            return self._run(self._selected(names))

        change(file, mutant.source.encode())
        try:
            noticed = not self._in_fork(passes)
        finally:
            change(file, original)
        if noticed:
            self.selection.noticed[self.at()] += 1
        return noticed

    def _record(self) -> None:
        """Runs the tests on the code as it is; those of a file are known if it and the room are as before."""
        modules: Dict[Path, List[pytest.Item]] = defaultdict(list)
        for item in self._session.items:
            modules[item.path].append(item)
        room = _digest(sorted((self._copy / self._folder).rglob("*.py")))
        for path, items in modules.items():
            known = self._copy.parent / "recorded" / f"{path.stem}-{_digest([path], room)}.json"
            if not known.exists():
                known.parent.mkdir(exist_ok=True)
                if not self._in_fork(lambda: self._record_to(known, items), watched=False):  # noqa: B023 - it ends here
                    raise SystemExit(f"the tests could not be run: {self._copy.parent}/output.txt")
            for name, (seconds, lines) in json.loads(known.read_text(encoding="utf-8")).items():
                self.selection.tests[name] = Recorded(seconds, {(path, line) for path, line in lines})

    def _record_to(self, file: Path, items: Sequence[pytest.Item]) -> bool:
        self._session.config.pluginmanager.register(self._recorder)
        self._session.config.option.maxfail = 0
        self._recorder.start()
        self._run(items, to_the_end=True)
        self._recorder.stop()
        rows = {name: (one.seconds, sorted(one.lines)) for name, one in self._recorder.recorded().items()}
        file.write_text(json.dumps(rows), encoding="utf-8")
        return True

    def _selected(self, names: Sequence[str]) -> List[pytest.Item]:
        order = {name: place for place, name in enumerate(names)}
        items = [one for one in self._session.items if one.nodeid in order]
        return sorted(items, key=lambda one: order[one.nodeid])

    def _run(self, items: Sequence[pytest.Item], to_the_end: bool = False) -> bool:
        for item, following in zip(items, [*items[1:], None]):
            self._wait_for(item.nodeid)
            self._session.shouldfail = False  # what `-x` sets
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed and not to_the_end:
                return False
        return True

    def _wait_for(self, name: str) -> None:
        """Gives the test its time, also of the processor: an endless loop is ended by the kernel."""
        self._at.write_text(name, encoding="utf-8")
        known = self.selection.tests.get(name)
        seconds = _PATIENCE + 5 * (known.seconds if known else 0.0)
        self._deadline[:] = struct.pack("d", time.monotonic() + seconds)
        if known:
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime + 3 + 3 * known.seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))

    def _load_again(self, names: Sequence[str]) -> bool:
        """Imports and collects everything once more that may use the room, and runs these tests."""
        if not names:
            return True
        stays = "path_mapping" if self._folder.startswith("ma_boot") else ""  # it imports nothing of ma_boot
        for name in list(sys.modules):
            if name.partition(".")[0] in {"tests", "ma_boot", "path_mapping"} - {stays}:
                del sys.modules[name]
        again = _Again(names, self._wait_for)
        files = sorted({name.partition("::")[0] for name in names})
        self._deadline[:] = struct.pack("d", time.monotonic() + 4 * _PATIENCE)
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        options = [*_OPTIONS, "--basetemp", str(self._copy.parent / "again")]
        return pytest.main([*options, *files], [again]) == pytest.ExitCode.OK

    def _patch(self, file: Path, source: str, name: str, line: int) -> bool:
        """Gives the function that begins at this line the code of the changed source; False if it does not fit."""
        try:
            whole = compile(source, str(file), "exec")
        except (SyntaxError, ValueError):
            return False
        found = [code for code in _codes(whole) if (code.co_name, code.co_firstlineno) == (name, line)]
        functions = self._functions.get((str(file), name, line), [])
        if len(found) != 1 or any(one.__code__.co_freevars != found[0].co_freevars for one in functions):
            return False
        for function in functions:
            function.__code__ = found[0]
        return True

    def _in_fork(self, passes: Callable[[], bool], watched: bool = True) -> bool:
        before = descendants()
        self._deadline[:] = struct.pack("d", time.monotonic() + 2 * _PATIENCE)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                _be_a_child(self._copy.parent / "output.txt")
                code = 0 if passes() else 1
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = _ended(
            pid, (lambda: struct.unpack("d", self._deadline)[0]) if watched else (lambda: float("inf"))
        )
        end_survivors(before, grace=0.0)
        return code == 0


class _Again:
    """A plugin for the second time: only these tests, in this order."""

    def __init__(self, names: Sequence[str], wait_for: Callable[[str], None]) -> None:
        self._order = {name: place for place, name in enumerate(names)}
        self._wait_for = wait_for

    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        items[:] = sorted(
            (one for one in items if one.nodeid in self._order), key=lambda one: self._order[one.nodeid]
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._wait_for(nodeid)


def run_collected(copy: Path, folder: str, tests: Sequence[str], work: Callable[[Runner], None]) -> None:
    """Collects the tests in the copy, in this process, whose interpreter is the copy's, and does the work."""
    runner = Runner(copy, folder, work)
    pytest.main(
        [*_OPTIONS, "-s", "-qq", "--no-summary", "--basetemp", str(copy.parent / "pytest"), *tests], [runner]
    )


def _be_a_child(output: Path) -> None:
    os.setsid()
    adopt_orphans()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (descriptor, 1), (descriptor, 2)):
        os.dup2(source, target)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))


def _functions_below(prefix: str) -> Mapping[Tuple[str, str, int], List[FunctionType]]:
    """The functions of files with this prefix, by file, name and first line."""
    found: Dict[Tuple[str, str, int], List[FunctionType]] = defaultdict(list)
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        if code.co_filename.startswith(prefix):
            found[code.co_filename, code.co_name, code.co_firstlineno].append(function)
    gc.freeze()
    return found


def _codes(code: CodeType) -> List[CodeType]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [*inner, *(deeper for one in inner for deeper in _codes(one))]


def _digest(files: Sequence[Path], first: str = "") -> str:
    whole = hashlib.sha256(first.encode())
    for file in files:
        whole.update(str(file).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:16]


def _ended(pid: int, deadline: Callable[[], float]) -> int:
    """The exit code of the child; 124 if a test takes too long."""
    while time.monotonic() < deadline():
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 124
