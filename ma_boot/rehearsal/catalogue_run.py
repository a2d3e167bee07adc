"""`--fault all`: each fault of the catalogue in a short rehearsal of its own, and a table of verdicts."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence

from ma_boot.errors import CannotCreate, UsageError
from ma_boot.node import World, as_options
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
from ma_boot.rehearsal.requested import Rehearsal
from ma_boot.rehearsal.sandbox import is_installed
from ma_boot.rehearsal.verdicts import FILE, read_verdicts

_AT_A_TIME = 2
_DELAY_SECONDS = 0.3
_TRIVIAL_SECONDS = 3.0
_TRIVIAL_NAME = "trains_nothing.py"
_MANY = 1000  # output files of a rank, where there has to be time for a fault
_NODES, _DEVICES = 2, 2  # of the trivial training's job: the catalogue is written for it
_NEVER_SECONDS = 600.0  # before SIGKILL: a rank that SIGTERM did not reach is seen
_INPUT_BYTES = 16 << 10
_CASE_SECONDS = 120.0  # a rehearsal that takes longer is ended: no fault of the catalogue does
_KILL_SECONDS = 20.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class _Ended:
    """A rehearsal that is over, without a verdict where it could not begin; `skipped`: why not tried, or not
    to its end. `log` is what it said."""

    case: Case
    seconds: float
    verdict: Optional[FaultVerdict] = None
    skipped: str = ""
    log: str = ""

    @property
    def well(self) -> bool:
        """As expected, or not tried."""
        return bool(self.skipped) or (self.verdict is not None and self.verdict.wrong == ())


class _Running:
    """A rehearsal that runs, in a directory of its own."""

    def __init__(self, case: Case, directory: Path, argv: Sequence[str], world: World) -> None:
        self.case = case
        self._directory = directory
        self._started = time.monotonic()
        self._told = 0
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

    def ended(self) -> Optional[_Ended]:
        """Its verdict, once it is over."""
        seconds = time.monotonic() - self._started
        if self._process.poll() is None:
            self._end_if_late(seconds)
            return None
        found = sorted(self._directory.glob(f"*/{FILE}"))
        verdict = read_verdicts(found[0].parent)[0] if found else None
        if verdict is not None and self._told:
            late = f"it was ended after {_CASE_SECONDS:.0f} s: neither the fault nor the training did that"
            verdict = dataclasses.replace(verdict, wrong=(late, *(verdict.wrong or ())))
        return _Ended(self.case, seconds, verdict, log=str(self._log))

    def stop(self, signum: int) -> None:
        """Hands a stop signal on."""
        signal_group(self._process.pid, signum)

    def _end_if_late(self, seconds: float) -> None:
        steps = ((_CASE_SECONDS, signal.SIGTERM), (_CASE_SECONDS + _KILL_SECONDS, signal.SIGKILL))
        for limit, signum in steps[self._told :]:
            if seconds > limit:
                self._told += 1
                self.stop(signum)


def run_all(rehearsal: Rehearsal, world: World) -> int:
    """Rehearses every fault of the catalogue; returns 0 when all verdicts are the expected ones, else 1.

    Without a command the training is a trivial one, which has its own inputs and outputs.
    """
    directory = Path(world.cwd, rehearsal.rehearsal_dir, f"faults-{uuid.uuid4().hex[:8]}")
    if not rehearsal.request.command:
        rehearsal = _trivial(rehearsal, directory)
    started = time.monotonic()
    waiting = [(case, _why_not(case, rehearsal, world)) for case in CASES]
    done = [_Ended(case, 0.0, skipped=why) for case, why in waiting if why]
    open_cases = [case for case, why in waiting if not why]
    world.journal.say(f"{len(open_cases)} faults, each in a rehearsal of its own, in {directory}")
    with guarded(own_marker(""), world.environ):  # nothing goes on without us
        done += _run_cases(open_cases, rehearsal, directory, world)
    stops = world.inbox.stops
    world.journal.say("\n".join(_table(done, time.monotonic() - started)))
    if stops:
        return 128 + stops[0]
    return 0 if all(one.well for one in done) else 1


def _run_cases(cases: Sequence[Case], rehearsal: Rehearsal, directory: Path, world: World) -> List[_Ended]:
    """Some for each core at a time, as they mostly wait; at a stop signal no new one begins."""
    waiting = list(enumerate(cases))
    running: List[_Running] = []
    done: List[_Ended] = []
    most, heard = _AT_A_TIME * max(1, len(os.sched_getaffinity(0))), 0
    while running or (waiting and not world.inbox.stops):
        while waiting and len(running) < most and not world.inbox.stops:
            number, case = waiting.pop(0)
            place = directory / f"{number:02}-{case.fault.split()[0]}"
            of_case = _with_own_obs(rehearsal, place, world)
            running.append(_Running(case, place, _argv(case, of_case, place), world))
        world.inbox.wait(_LOOK_SECONDS)
        for signum in world.inbox.stops[heard:]:
            heard += 1
            for one in running:
                one.stop(signum)
        for one in list(running):
            ended = one.ended()
            if ended is not None:
                running.remove(one)
                done.append(_stopped(ended) if heard else _judged(ended))
                world.journal.say("\n".join(_lines(done[-1])))
    return done + [_Ended(case, 0.0, skipped="not begun") for _, case in waiting]


def _stopped(ended: _Ended) -> _Ended:
    """One that we have ended says nothing about its fault."""
    return dataclasses.replace(ended, verdict=None, skipped="stopped")


def _with_own_obs(rehearsal: Rehearsal, directory: Path, world: World) -> Rehearsal:
    """The same with an OBS of its own: what another case has uploaded is not there."""
    transfers = rehearsal.request.transfers
    if transfers.obs_root is None:
        return rehearsal
    source, own = Path(world.cwd, transfers.obs_root), directory / "obs"
    own.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, own, copy_function=_linked, dirs_exist_ok=True)
    transfers = dataclasses.replace(transfers, obs_root=str(own))
    return dataclasses.replace(rehearsal, request=dataclasses.replace(rehearsal.request, transfers=transfers))


def _linked(source: str, target: str) -> None:
    """The same file once more where the disk can do that: who changes an object replaces its file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _judged(ended: _Ended) -> _Ended:
    """By the catalogue, where the fault's own rule says nothing."""
    wanted, verdict = ended.case.expected, ended.verdict
    if wanted is None or verdict is None or not verdict.came:
        return ended
    wrong = (*deviations(verdict.end(), wanted), *(verdict.wrong or ()))
    return dataclasses.replace(ended, verdict=dataclasses.replace(verdict, wrong=wrong))


def _argv(case: Case, rehearsal: Rehearsal, directory: Path) -> List[str]:
    """The command line of one rehearsal."""
    request = rehearsal.request
    ranks = dataclasses.replace(request.ranks, rank_table_timeout=TABLE_SECONDS)
    request = dataclasses.replace(request, ranks=ranks)
    options, command = list(as_options(request)), list(request.command)
    head = options[: len(options) - len(command) - 1]
    if _is_trivial(rehearsal):
        command[1:3] = [str(_trivial_seconds(case)), str(_MANY if "phase=outputs" in case.fault else 1)]
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
    """A fault that ends the job has to do so by itself: its training would go on."""
    (fault,) = parse_faults([case.fault], _NODES, _DEVICES)
    ends = fault.kind in ("kill", "exit", "lost", "stop") or (fault.kind == "hang" and fault.lasts is None)
    return _CASE_SECONDS * 2 if ends and fault.phase != "outputs" else _TRIVIAL_SECONDS


def _why_not(case: Case, rehearsal: Rehearsal, world: World) -> str:
    """Why a case cannot be rehearsed here."""
    transfers = rehearsal.request.transfers
    if case.moves and not (transfers.path_mapping and transfers.obs_root):
        return "needs --path-mapping and --obs-root"
    if case.fault.startswith("disk-full") and not is_installed(world.environ):
        return "needs bubblewrap"
    try:
        (fault,) = parse_faults([case.fault], rehearsal.nodes, rehearsal.devices_per_node)
    except UsageError:
        return f"not in a job of {rehearsal.nodes} x {rehearsal.devices_per_node}"
    if fault.stage == "rank" and not rehearsal.request.launch.starts_ranks:
        return "needs ranks that ma_boot starts"
    return ""


def _trivial(rehearsal: Rehearsal, directory: Path) -> Rehearsal:
    """The same with the training that trains nothing, on 2 nodes of 2 devices, with inputs and outputs."""
    project, obs = directory / "project", directory / "obs"
    content = os.urandom(_INPUT_BYTES)
    mapping = {
        "input": {"data": "obs://bucket/data/"},
        "output": {"out": "obs://bucket/out/"},
    }
    try:
        (obs / "bucket" / "data").mkdir(parents=True)
        (obs / "bucket" / "data" / "x").write_bytes(content)
        project.mkdir()
        script, config = project / _TRIVIAL_NAME, project / "path_mapping_config.py"
        shutil.copyfile(TRIVIAL_TRAINING, script)
        config.write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n", encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot make {directory}: {error.strerror}") from error
    request = dataclasses.replace(
        rehearsal.request,
        command=(str(script), str(_TRIVIAL_SECONDS), "1", hashlib.sha256(content).hexdigest()),
        transfers=dataclasses.replace(
            rehearsal.request.transfers, path_mapping=str(config), obs_root=str(obs)
        ),
        run=dataclasses.replace(rehearsal.request.run, stop_timeout=_NEVER_SECONDS),
    )
    return dataclasses.replace(rehearsal, request=request, nodes=_NODES, devices_per_node=_DEVICES)


def _is_trivial(rehearsal: Rehearsal) -> bool:
    return Path(rehearsal.request.command[0]).name == _TRIVIAL_NAME


def _lines(one: _Ended) -> List[str]:
    """A row of the table, and below it what is not as expected."""
    if one.skipped:
        return [_row("skip", one.case.fault, "", f"  {one.skipped}")]
    mark, seconds = "ok" if one.well else "BAD", f"{one.seconds:.1f} s"
    if one.verdict is None:
        return [_row(mark, one.case.fault, seconds, ""), f"       it left no verdict: see {one.log}"]
    found = one.verdict
    after = "-" if found.seconds is None else f"{found.seconds:.1f} s"
    home = "-" if found.files is None or found.lost is None else f"{found.files - found.lost}/{found.files}"
    row = _row(mark, one.case.fault, seconds, f"{found.code:5} {after:>7} {home:>5}")
    return [row, *(f"       {line}" for line in found.judgement() if not one.well), *_where(one)]


def _row(mark: str, fault: str, seconds: str, more: str) -> str:
    return f"{mark:4} {fault:58} {seconds:>7}{more}".rstrip()


def _where(one: _Ended) -> List[str]:
    return [] if one.well else [f"       see {one.log}"]


def _table(done: Sequence[_Ended], seconds: float) -> List[str]:
    """All of them in the catalogue's order, and last how many are as expected."""
    order = {case: number for number, case in enumerate(CASES)}
    rows = [line for one in sorted(done, key=lambda one: order[one.case]) for line in _lines(one)]
    bad = sum(not one.well for one in done)
    skipped = sum(bool(one.skipped) for one in done)
    well = len(done) - bad - skipped
    return [
        _row("", "fault", "took", f"{'code':>5} {'after':>7} {'home':>5}"),
        *rows,
        "after: between the fault and the end of the job; home: output files that are in OBS, of all",
        f"{len(done)} faults in {seconds:.0f} s: {well} as expected, {bad} not, {skipped} skipped",
    ]
