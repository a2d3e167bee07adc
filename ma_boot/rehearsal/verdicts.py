"""The verdicts on the faults of a rehearsal that has ended, and the file `verdicts.json` that keeps them."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import os
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

from ma_boot.redact import masked
from ma_boot.rehearsal.faults import Fault
from ma_boot.rehearsal.job_run import JobRun
from ma_boot.rehearsal.node_specs import node_mapping
from ma_boot.rehearsal.setup import Setup
from path_mapping.mapping import Route

FILE = "verdicts.json"
COLUMNS = 88  # leaves room for the prefix of each line on a terminal of 100 columns


@dataclasses.dataclass(frozen=True)
class FaultVerdict:
    """What came of one fault; the fields are those of `verdicts.json`.

    `seconds` passed between the fault and the end of the job, None if the fault was not injected. `files` and
    `lost` count output files, None if unknown. `wrong` lists what was not as expected: that the fault was not
    injected, and processes that outlived the job.
    """

    fault: str
    came: bool
    code: int
    cause: str
    seconds: Optional[float]
    files: Optional[int]
    lost: Optional[int]
    wrong: Tuple[str, ...]

    def lines(self) -> List[str]:
        """The verdict as the rehearsal prints it."""
        story = [f"NOT as expected: {problem}" for problem in self.wrong]
        if self.seconds is not None:
            ended = f"the job ended {self.seconds:.1f} s after it with exit code {self.code}"
            story = [ended, f"the cause: {self.cause}", self._outputs(), *story]
        return [f"fault: {self.fault}", *(f"  {_shortened(line)}" for line in story)]

    def _outputs(self) -> str:
        if self.files is None or self.lost is None:
            return "outputs: not checked"
        if not self.files:
            return "outputs: no files"
        if self.lost:
            return f"outputs: {self.lost} of {self.files} files are not in OBS"
        return f"outputs: all {self.files} files are in OBS"


def _shortened(text: str) -> str:
    return text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def verdicts_of(setup: Setup, job_run: JobRun, code: int, cause: str) -> List[FaultVerdict]:
    """A verdict on each fault of a job that has ended with an exit code, for a cause."""
    if not setup.rehearsal.faults:
        return []
    left = ", ".join(map(str, job_run.left))
    outlived = (f"processes still running at the end: {left}",) if left else ()
    count, missing = _output_files(setup) or (None, ())
    injected = {injection.fault: injection for injection in job_run.injected}

    def verdict(fault: Fault) -> FaultVerdict:
        injection = injected.get(fault)
        problem = injection.problem if injection else f"the fault was not injected: {job_run.missed[fault]}"
        return FaultVerdict(
            fault=str(fault),
            came=problem is None,
            code=code,
            cause=cause,
            seconds=max(0.0, job_run.ended - injection.at) if injection else None,
            files=count,
            lost=None if count is None else len(missing),
            wrong=((problem,) if problem else ()) + outlived,
        )

    return [verdict(fault) for fault in setup.rehearsal.faults]


def _output_files(setup: Setup) -> Optional[Tuple[int, Sequence[str]]]:
    """The outputs of all nodes, by the mapping and the job form, as `compared_outputs` returns them.

    None where OBS is not a directory here, and where an output was on a small disk, which no longer exists.
    """
    obs_root = setup.request.transfers.obs_root
    if obs_root is None:
        return None
    places = [place for node in range(setup.job.nodes) for place in _outputs(setup, node)]
    disks = [
        setup.job.sandbox_root(fault.node or 0) + (fault.path or "")
        for fault in setup.rehearsal.faults
        if fault.stage == "disk"
    ]
    if any(f"{route.path(base)}/".startswith(f"{disk}/") for route, base in places for disk in disks):
        return None
    return compared_outputs(places, Path(obs_root))


def _outputs(setup: Setup, node: int) -> Iterator[Tuple[Route, Path]]:
    """A node's output routes, each with the directory to which its local path is relative."""
    mapping, root = node_mapping(setup, node), setup.job.sandbox_root(node)
    for route in mapping.outputs if mapping else ():
        local = root + route.local if os.path.isabs(route.local) else route.local
        yield route._replace(local=local), Path(setup.job.home(node))
    for channel in setup.rehearsal.channels:
        if not channel.is_input:
            yield channel.route(setup.job, node), Path(root)


def compared_outputs(
    places: Sequence[Tuple[Route, Path]], obs_root: Path
) -> Optional[Tuple[int, Sequence[str]]]:
    """How many files the nodes have at their output paths, and those that OBS lacks or has otherwise.

    `places` are routes, each with the directory to which its local path is relative; the directory `obs_root`
    stands for OBS. None if there are no outputs, or if patterns select which files to upload.
    """
    if not places or any(route.include or route.exclude for route, _ in places):
        return None
    count, missing = 0, []
    for route, base in places:
        local = route.path(base)
        for path in _files(local):
            count += 1
            below = "" if path == local else path.relative_to(local).as_posix()
            stored = obs_root / route.remote.bucket / route.remote.key / below
            if not stored.is_file() or not filecmp.cmp(stored, path, shallow=False):
                missing.append(str(path))
    return count, missing


def _files(local: Path) -> List[Path]:
    if local.is_file():
        return [local]
    return [Path(directory, name) for directory, _, names in os.walk(local) for name in names]


def write_verdicts(root: str, verdicts: Sequence[FaultVerdict]) -> None:
    """Writes the verdicts into the directory of the rehearsal, without secrets.

    Raises `OSError` if it cannot.
    """
    text = json.dumps(
        masked([dataclasses.asdict(verdict) for verdict in verdicts]), indent=2, ensure_ascii=False
    )
    Path(root, FILE).write_text(text + "\n", encoding="utf-8")
