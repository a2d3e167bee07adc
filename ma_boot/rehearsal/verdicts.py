"""The verdicts on the faults of a rehearsal that has ended, and the file `verdicts.json` that keeps them."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ma_boot.redact import masked
from ma_boot.rehearsal.faults import FaultVerdict, JobEnd, OutputFiles, Patience, expected, verdict_on
from ma_boot.rehearsal.job_run import JobRun
from ma_boot.rehearsal.node_specs import node_mapping
from ma_boot.rehearsal.setup import Setup
from path_mapping.mapping import Route

FILE = "verdicts.json"


def verdicts_of(setup: Setup, job_run: JobRun, code: int, cause: str) -> List[FaultVerdict]:
    """A verdict on each fault; nothing particular is expected of several faults at once."""
    faults, run = setup.rehearsal.faults, setup.request.run
    ends_hangs = run.hang_timeout is not None and run.hang_action == "stop"
    patience = Patience(run.stop_timeout, setup.request.ranks.rank_table_timeout, ends_hangs)
    end = JobEnd(code, cause, job_run.ended, job_run.starts, _output_files(setup), tuple(job_run.left))
    injected = {one.fault: one for one in job_run.injected}
    return [
        verdict_on(
            fault,
            injected.get(fault) or job_run.missed[fault],
            end,
            expected(fault, patience) if len(faults) == 1 else None,
        )
        for fault in faults
    ]


def _output_files(setup: Setup) -> Optional[OutputFiles]:
    """The outputs of all nodes, by the mapping and the job form.

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


def compared_outputs(places: Sequence[Tuple[Route, Path]], obs_root: Path) -> Optional[OutputFiles]:
    """Compares the nodes' outputs with the directory that stands for OBS.

    `places` are routes, each with the directory to which its local path is relative. None if there are no
    outputs, or if patterns select which files to upload.
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
    return OutputFiles(count, tuple(missing))


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


def read_verdicts(root: Path) -> List[FaultVerdict]:
    """Reads what `write_verdicts` has written."""
    found: List[Mapping[str, Any]] = json.loads((root / FILE).read_text(encoding="utf-8"))
    return [FaultVerdict(**_with_tuples(one)) for one in found]


def _with_tuples(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
