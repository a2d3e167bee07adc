"""`--fault all`: each fault of the catalogue in a short rehearsal of its own, and a table of verdicts."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate, UsageError
from ma_boot.local.faults import trivial
from ma_boot.local.faults.catalogue import CASES, PATIENCE_SECONDS, Case
from ma_boot.local.faults.expect import Expected
from ma_boot.local.faults.grammar import parse_faults
from ma_boot.local.faults.verdict import FILE, Verdict, contradictions, read_verdicts
from ma_boot.local.node_specs import Rehearsal
from ma_boot.local.sandbox.enter import bubblewrap
from ma_boot.processes import signal_group
from ma_boot.request import as_options
from ma_boot.world import World

_DELAY_SECONDS = 0.3
_TRIVIAL_SECONDS = 4.0
_INPUT_BYTES = 16 << 10
_CASE_SECONDS = 120.0  # a rehearsal that takes longer is ended: no fault of the catalogue does
_KILL_SECONDS = 20.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class _Ended:
    """A rehearsal that is over, without a verdict where it could not begin; `skipped`: why not tried."""

    case: Case
    seconds: float
    verdict: Optional[Verdict] = None
    skipped: str = ""

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
        with (directory / "output.log").open("wb") as output:
            self._process = subprocess.Popen(
                argv,
                cwd=world.cwd,
                env=dict(world.environ),
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
        return _Ended(self.case, seconds, read_verdicts(found[0].parent)[0] if found else None)

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
    done += _run_cases(open_cases, rehearsal, directory, world)
    stops = world.inbox.stops
    world.journal.say("\n".join(_table(done, time.monotonic() - started)))
    if stops:
        return 128 + stops[0]
    return 0 if all(one.well for one in done) else 1


def _run_cases(cases: Sequence[Case], rehearsal: Rehearsal, directory: Path, world: World) -> List[_Ended]:
    """As many at a time as there are cores; at a stop signal no new one begins."""
    waiting = list(enumerate(cases))
    running: List[_Running] = []
    done: List[_Ended] = []
    most, heard = max(2, len(os.sched_getaffinity(0))), 0
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
                done.append(_judged(ended))
                world.journal.say(_line(done[-1]))
    return done


def _with_own_obs(rehearsal: Rehearsal, directory: Path, world: World) -> Rehearsal:
    """The same with an OBS of its own: what another case has uploaded is not there."""
    if rehearsal.request.obs_root is None:
        return rehearsal
    source, own = Path(world.cwd, rehearsal.request.obs_root), directory / "obs"
    own.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, own, copy_function=_linked, dirs_exist_ok=True)
    return dataclasses.replace(rehearsal, request=dataclasses.replace(rehearsal.request, obs_root=str(own)))


def _linked(source: str, target: str) -> None:
    """The same file once more where the disk can do that: who changes an object replaces its file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _judged(ended: _Ended) -> _Ended:
    """By the catalogue, where its options change what the fault's own rule says."""
    wanted, verdict = ended.case.expected, ended.verdict
    if wanted is None or verdict is None or not verdict.came:
        return ended
    return dataclasses.replace(ended, verdict=dataclasses.replace(verdict, wrong=_against(verdict, wanted)))


def _against(verdict: Verdict, wanted: Expected) -> Tuple[str, ...]:
    return contradictions(verdict.code, verdict.cause, verdict.lost, wanted)


def _argv(case: Case, rehearsal: Rehearsal, directory: Path) -> List[str]:
    """The command line of one rehearsal."""
    request = dataclasses.replace(rehearsal.request, rank_table_timeout=PATIENCE_SECONDS)
    options, command = list(as_options(request)), list(request.command)
    head = options[: len(options) - len(command) - 1]
    argv = [sys.executable, "-m", "ma_boot", "run", "--local", *head]
    argv += ["--nodes", str(rehearsal.nodes), "--devices-per-node", str(rehearsal.devices_per_node)]
    argv += ["--rank-table-delay", str(min(rehearsal.rank_table_delay, _DELAY_SECONDS))]
    argv += ["--code-dir", rehearsal.code_dir] if rehearsal.code_dir else []
    argv += ["--sandbox", rehearsal.sandbox] if rehearsal.sandbox else []
    argv += ["--obs-server"] if rehearsal.obs_server or case.fault.startswith("obs-") else []
    argv += [*case.options, "--fault", case.fault, "--rehearsal-dir", str(directory)]
    return [*argv, "--", *command, *rehearsal.appended]


def _why_not(case: Case, rehearsal: Rehearsal, world: World) -> str:
    """Why a case cannot be rehearsed here."""
    request = rehearsal.request
    if (case.moves or "phase=inputs" in case.fault) and not (request.path_mapping and request.obs_root):
        return "needs --path-mapping and --obs-root"
    if case.fault.startswith("disk-full") and not bubblewrap(world.environ):
        return "needs bubblewrap"
    try:
        parse_faults([case.fault], rehearsal.nodes, rehearsal.devices_per_node)
    except UsageError:
        return f"not in a job of {rehearsal.nodes} x {rehearsal.devices_per_node}"
    return ""


def _trivial(rehearsal: Rehearsal, directory: Path) -> Rehearsal:
    """The same with the training that trains nothing, on 2 nodes of 2 devices, with inputs and outputs."""
    project, obs = directory / "project", directory / "obs"
    mapping = {
        "input": {trivial.INPUT: "obs://bucket/data/"},
        "output": {trivial.OUTPUT: "obs://bucket/out/"},
    }
    try:
        (obs / "bucket" / "data").mkdir(parents=True)
        (obs / "bucket" / "data" / "x").write_bytes(os.urandom(_INPUT_BYTES))
        project.mkdir()
        script, config = project / "train.py", project / "path_mapping_config.py"
        script.write_bytes(Path(trivial.__file__).read_bytes())
        config.write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n", encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot make {directory}: {error.strerror}") from error
    request = dataclasses.replace(
        rehearsal.request,
        command=(str(script), str(_TRIVIAL_SECONDS)),
        path_mapping=str(config),
        obs_root=str(obs),
    )
    return dataclasses.replace(rehearsal, request=request, nodes=2, devices_per_node=2)


def _line(one: _Ended) -> str:
    mark = "skip" if one.skipped else "ok" if one.well else "BAD"
    said = one.skipped or (one.verdict.said() if one.verdict else "it left no verdict: see its output.log")
    return f"{mark:4} {one.case.fault:55} {one.seconds:5.1f} s  {said}"


def _table(done: Sequence[_Ended], seconds: float) -> List[str]:
    """All of them in the catalogue's order, and last how many are as expected."""
    order = {case: number for number, case in enumerate(CASES)}
    lines = [_line(one) for one in sorted(done, key=lambda one: order[one.case])]
    bad = sum(not one.well for one in done)
    skipped = sum(bool(one.skipped) for one in done)
    well = len(done) - bad - skipped
    return [
        *lines,
        f"{len(done)} faults in {seconds:.0f} s: {well} as expected, {bad} not, {skipped} skipped",
    ]
