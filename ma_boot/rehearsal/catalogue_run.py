"""`--fault all`: runs each fault of the catalogue in a separate rehearsal, and prints a table of verdicts."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import List, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate, UsageError
from ma_boot.node import World, as_options, shown
from ma_boot.processes import MARKER_VARIABLE, guarded, own_marker, signal_group
from ma_boot.rehearsal.faults import (
    CASES,
    TABLE_SECONDS,
    TRIVIAL_TRAINING,
    Case,
    FaultVerdict,
    deviations,
    parse_faults,
)
from ma_boot.rehearsal.kept import sandbox
from ma_boot.rehearsal.requested import Rehearsal
from ma_boot.rehearsal.sandbox import is_installed
from ma_boot.rehearsal.summary import NOT_AS_EXPECTED
from ma_boot.rehearsal.verdicts import FILE, read_verdicts

_AT_A_TIME = 2  # rehearsals per core: they mostly wait
_DELAY_SECONDS = 0.3
_TRIVIAL_SECONDS = 3.0
_TRIVIAL_NAME = "trains_nothing.py"
_MANY_FILES = 1000  # outputs of a rank, so that a fault can interrupt their upload
_NODES, _DEVICES = 2, 2  # of the job with the trivial training; the catalogue is written for them
_NO_KILL_SECONDS = 600.0  # before SIGKILL, so that a rank which SIGTERM does not end gets noticed
_INPUT_BYTES = 16 << 10
_CASE_SECONDS = 120.0  # far longer than any case takes; a rehearsal is stopped after them
_KILL_SECONDS = 20.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class _CaseResult:
    """What came of a case: `skipped` is why it was not run to its end, `log` the file of its output.

    There is no verdict if the rehearsal could not start.
    """

    case: Case
    seconds: float
    verdict: Optional[FaultVerdict] = None
    skipped: str = ""
    log: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the outcome was expected, or the case was skipped."""
        return bool(self.skipped) or (self.verdict is not None and self.verdict.wrong == ())


class _RunningCase:
    """A running rehearsal, which has its own directory."""

    def __init__(self, case: Case, directory: Path, argv: Sequence[str], world: World) -> None:
        self.case = case
        self._directory = directory
        self._started = time.monotonic()
        self._stopped = 0
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "output.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                argv,
                cwd=world.cwd,
                env={**world.environ, MARKER_VARIABLE: own_marker("")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def result(self) -> Optional[_CaseResult]:
        """The result; None while the rehearsal runs. Stops it if it takes too long."""
        seconds = time.monotonic() - self._started
        if self._process.poll() is None:
            self._stop_if_late(seconds)
            return None
        verdict = self._verdict()
        if verdict is not None and self._stopped:
            late = f"stopped after {_CASE_SECONDS:.0f} s: neither the fault nor the training ended the job"
            verdict = replace(verdict, wrong=(late, *(verdict.wrong or ())))
        return _CaseResult(self.case, seconds, verdict, log=str(self._log))

    def _verdict(self) -> Optional[FaultVerdict]:
        try:
            return read_verdicts(next(self._directory.glob(f"*/{FILE}")).parent)[0]
        except (StopIteration, OSError, ValueError):  # it did not start, or was killed while it wrote them
            return None

    def stop(self, signum: int) -> None:
        """Forwards a stop signal."""
        signal_group(self._process.pid, signum)

    def _stop_if_late(self, seconds: float) -> None:
        steps = ((_CASE_SECONDS, signal.SIGTERM), (_CASE_SECONDS + _KILL_SECONDS, signal.SIGKILL))
        for limit, signum in steps[self._stopped :]:
            if seconds > limit:
                self._stopped += 1
                self.stop(signum)


def run_all(rehearsal: Rehearsal, world: World) -> int:
    """Rehearses every fault of the catalogue; returns 0 if all outcomes were expected, else 1.

    Without a command, a trivial training with its own inputs and outputs is used.

    Raises:
        CannotCreate: the files of the trivial training, or of a case, cannot be created.
    """
    directory = Path(world.cwd, rehearsal.rehearsal_dir, f"faults-{uuid.uuid4().hex[:8]}")
    command = shown(rehearsal.typed)
    events = directory / "log" / "faults-events.jsonl"
    with sandbox(directory, command, events):
        world.journal.open(events, None)
        world.journal.event("rehearsal", command=command)
        code, text = _run_in(directory, rehearsal, world)
        world.journal.event("job-end", exit_code=code, by=None, cause=text, label=None, signal=None)
        world.journal.close()
    return code


def _run_in(directory: Path, rehearsal: Rehearsal, world: World) -> Tuple[int, str]:
    """Runs all cases; returns the exit code, and the totals in words."""
    if not rehearsal.request.command:
        rehearsal = _trivial(rehearsal, directory)
    started = time.monotonic()
    skipped = {case: _why_skipped(case, rehearsal, world.environ) for case in CASES}
    done = [_CaseResult(case, 0.0, skipped=why) for case, why in skipped.items() if why]
    runnable = [case for case, why in skipped.items() if not why]
    world.journal.say(f"{len(runnable)} faults, each in a separate rehearsal, in {directory}")
    with guarded(own_marker(""), world.environ):  # if we are killed, all rehearsals are
        done += _run_cases(runnable, rehearsal, directory, world)
    stops = world.inbox.stops
    table = _table(done, time.monotonic() - started)
    world.journal.say("\n".join(table))
    code = 0 if all(one.is_good for one in done) else NOT_AS_EXPECTED
    return 128 + stops[0] if stops else code, table[-1]


def _run_cases(
    cases: Sequence[Case], rehearsal: Rehearsal, directory: Path, world: World
) -> List[_CaseResult]:
    """Runs some cases at a time; starts no new ones after a stop signal.

    Raises:
        CannotCreate: the files of a case cannot be created; those that ran have been killed.
    """
    running: List[_RunningCase] = []
    try:
        return _run_some(cases, rehearsal, directory, world, running)
    except OSError as error:
        raise CannotCreate(
            f"cannot create {error.filename or directory}: {error.strerror or error}"
        ) from error
    finally:
        for one in running:
            one.stop(signal.SIGKILL)


def _run_some(
    cases: Sequence[Case], rehearsal: Rehearsal, directory: Path, world: World, running: List[_RunningCase]
) -> List[_CaseResult]:
    waiting = list(enumerate(cases))
    done: List[_CaseResult] = []
    most, heard = _AT_A_TIME * max(1, len(os.sched_getaffinity(0))), 0
    while running or (waiting and not world.inbox.stops):
        while waiting and len(running) < most and not world.inbox.stops:
            number, case = waiting.pop(0)
            place = directory / f"{number:02}-{case.fault.split()[0]}"
            of_case = _with_own_obs(rehearsal, place, world)
            running.append(_RunningCase(case, place, _argv(case, of_case, place), world))
        world.inbox.wait(_POLL_SECONDS)
        for signum in world.inbox.stops[heard:]:
            heard += 1
            for one in running:
                one.stop(signum)
        for one in list(running):
            result = one.result()
            if result is not None:
                running.remove(one)
                stopped = replace(result, verdict=None, skipped="stopped")
                done.append(stopped if heard else _judged_by_case(result))
                world.journal.say("\n".join(_rows(done[-1])))
    return done + [_CaseResult(case, 0.0, skipped="not started") for _, case in waiting]


def _with_own_obs(rehearsal: Rehearsal, directory: Path, world: World) -> Rehearsal:
    """The rehearsal with a copy of the OBS, so that it does not see the uploads of other cases."""
    transfers = rehearsal.request.transfers
    if transfers.obs_root is None:
        return rehearsal
    source, own = Path(world.cwd, transfers.obs_root), directory / "obs"
    own.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, own, copy_function=_linked, dirs_exist_ok=True)
    transfers = transfers._replace(obs_root=str(own))
    return replace(rehearsal, request=rehearsal.request._replace(transfers=transfers))


def _linked(source: str, target: str) -> None:
    """Links a file, or copies it where the disk has no links: objects are replaced, never modified."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _judged_by_case(ended: _CaseResult) -> _CaseResult:
    """The result, judged by the catalogue if the fault's own rule leaves the outcome open."""
    wanted, verdict = ended.case.expected, ended.verdict
    if wanted is None or verdict is None or not verdict.came:
        return ended
    wrong = (*deviations(verdict.end(), wanted), *(verdict.wrong or ()))
    return replace(ended, verdict=replace(verdict, wrong=wrong))


def _argv(case: Case, rehearsal: Rehearsal, directory: Path) -> List[str]:
    """The command line of one rehearsal."""
    request = rehearsal.request
    ranks = request.ranks._replace(rank_table_timeout=TABLE_SECONDS)
    request = request._replace(ranks=ranks)
    options, command = list(as_options(request)), list(request.command)
    head = options[: len(options) - len(command) - 1]
    if _is_trivial(rehearsal):
        command[1:3] = [str(_trivial_seconds(case)), str(_MANY_FILES if "phase=outputs" in case.fault else 1)]
    argv = [sys.executable, "-m", "ma_boot", "run", "--local", *head]
    argv += ["--nodes", str(rehearsal.nodes), "--devices-per-node", str(rehearsal.devices_per_node)]
    argv += ["--rank-table-delay", str(min(rehearsal.rank_table_delay, _DELAY_SECONDS))]
    argv += ["--code-dir", rehearsal.code_dir] if rehearsal.code_dir else []
    argv += ["--sandbox", rehearsal.sandbox] if rehearsal.sandbox else []
    argv += ["--obs-server"] if rehearsal.obs_server or case.fault.startswith("obs-") else []
    argv += [word for channel in rehearsal.channels for word in channel.as_option()]
    argv += ["--append-args", shlex.join(rehearsal.appended)] if rehearsal.appended else []
    argv += [*case.options, "--fault", case.fault, "--rehearsal-dir", str(directory)]
    return [*argv, "--", *command]


def _trivial_seconds(case: Case) -> float:
    """How long the training lasts; one whose fault is to end the job outlasts the case."""
    (fault,) = parse_faults([case.fault], _NODES, _DEVICES)
    ends = fault.kind in ("kill", "exit", "lost", "stop") or (fault.kind == "hang" and fault.lasts is None)
    return _CASE_SECONDS * 2 if ends and fault.phase != "outputs" else _TRIVIAL_SECONDS


def _why_skipped(case: Case, rehearsal: Rehearsal, environ: Mapping[str, str]) -> str:
    """Why a case cannot be rehearsed here; empty if it can."""
    transfers = rehearsal.request.transfers
    if case.moves and not (transfers.path_mapping and transfers.obs_root):
        return "needs --path-mapping and --obs-root"
    if case.fault.startswith("disk-full") and not is_installed(environ):
        return "needs bubblewrap"
    try:
        (fault,) = parse_faults([case.fault], rehearsal.nodes, rehearsal.devices_per_node)
    except UsageError:
        return f"impossible in a job of {rehearsal.nodes} nodes x {rehearsal.devices_per_node} devices"
    if fault.stage == "rank" and not rehearsal.request.launch.starts_ranks:
        return "needs ranks that ma_boot starts"
    return ""


def _trivial(rehearsal: Rehearsal, directory: Path) -> Rehearsal:
    """The rehearsal with the trivial training, on 2 nodes with 2 devices each, with an input and outputs."""
    project, obs = directory / "project", directory / "obs"
    content = os.urandom(_INPUT_BYTES)
    mapping = {"input": {"data": "obs://bucket/data/"}, "output": {"out": "obs://bucket/out/"}}
    try:
        (obs / "bucket" / "data").mkdir(parents=True)
        (obs / "bucket" / "data" / "x").write_bytes(content)
        project.mkdir()
        script, config = project / _TRIVIAL_NAME, project / "path_mapping_config.py"
        shutil.copyfile(TRIVIAL_TRAINING, script)
        config.write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n", encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot create {directory}: {error.strerror}") from error
    request = rehearsal.request._replace(
        command=(
            *(str(script), str(_TRIVIAL_SECONDS), "1", hashlib.sha256(content).hexdigest()),
            *(str(_NODES), str(_DEVICES)),
        ),
        transfers=rehearsal.request.transfers._replace(path_mapping=str(config), obs_root=str(obs)),
        run=rehearsal.request.run._replace(stop_timeout=_NO_KILL_SECONDS),
    )
    return replace(rehearsal, request=request, nodes=_NODES, devices_per_node=_DEVICES)


def _is_trivial(rehearsal: Rehearsal) -> bool:
    return Path(rehearsal.request.command[0]).name == _TRIVIAL_NAME


def _rows(one: _CaseResult) -> List[str]:
    """The row of a case, and below it what was not expected."""
    if one.skipped:
        return [_row("skip", one.case.fault, "", f"  {one.skipped}")]
    mark, seconds, found = "ok" if one.is_good else "BAD", f"{one.seconds:.1f} s", one.verdict
    if found is None:
        return [_row(mark, one.case.fault, seconds), f"       no verdict: see {one.log}"]
    after = "-" if found.seconds is None else f"{found.seconds:.1f} s"
    in_obs = "-" if found.files is None or found.lost is None else f"{found.files - found.lost}/{found.files}"
    row = _row(mark, one.case.fault, seconds, f"{found.code:5} {after:>7} {in_obs:>6}")
    return (
        [row]
        if one.is_good
        else [row, *(f"       {line}" for line in (*found.judgement(), f"see {one.log}"))]
    )


def _row(mark: str, fault: str, seconds: str, more: str = "") -> str:
    return f"{mark:4} {fault:58} {seconds:>7}{more}".rstrip()


def _table(done: Sequence[_CaseResult], seconds: float) -> List[str]:
    """The table in the order of the catalogue, then the totals."""
    in_order = sorted(done, key=lambda one: CASES.index(one.case))
    bad = sum(not one.is_good for one in done)
    skipped = sum(bool(one.skipped) for one in done)
    good = len(done) - bad - skipped
    return [
        _row("", "fault", "took", f"{'code':>5} {'after':>7} {'in OBS':>6}"),
        *(row for one in in_order for row in _rows(one)),
        "after: time from the fault to the end of the job; in OBS: uploaded output files, of all",
        f"{len(done)} faults in {seconds:.0f} s: {good} as expected, {bad} not, {skipped} skipped",
    ]
