"""After a rehearsal: its faults, what came of each, and where the outputs are."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from ma_boot.rehearsal.course import Course
from ma_boot.rehearsal.faults.expect import Patience, expected
from ma_boot.rehearsal.faults.verdict import End, Home, Verdict, judged, outputs_home
from ma_boot.rehearsal.node_specs import Setting, node_mapping
from path_mapping.mapping import Route


def verdicts_of(setting: Setting, course: Course, code: int, cause: str) -> List[Verdict]:
    """One for each fault; of several faults in one rehearsal nothing is expected in particular."""
    faults, request = setting.rehearsal.faults, setting.request
    hangs_end = request.hang_timeout is not None and request.hang_action == "stop"
    patience = Patience(request.stop_timeout, request.rank_table_timeout, hangs_end)
    end = End(code, cause, course.ended, course.starts, _home(setting), tuple(course.left))
    came = {one.fault: one for one in course.came}
    return [
        judged(
            fault,
            came.get(fault) or course.missed[fault],
            end,
            expected(fault, patience) if len(faults) == 1 else None,
        )
        for fault in faults
    ]


def _home(setting: Setting) -> Optional[Home]:
    """The outputs of all nodes, by the mapping and the job form.

    None where OBS is no directory here, and where one lay on a small disk, which is gone.
    """
    if setting.request.obs_root is None:
        return None
    places = [place for node in range(setting.job.nodes) for place in _outputs(setting, node)]
    disks = [
        setting.job.node_root(fault.node or 0) + (fault.path or "")
        for fault in setting.rehearsal.faults
        if fault.stage == "disk"
    ]
    if any(f"{route.path(base)}/".startswith(f"{disk}/") for route, base in places for disk in disks):
        return None
    return outputs_home(places, Path(setting.request.obs_root))


def _outputs(setting: Setting, node: int) -> Iterator[Tuple[Route, Path]]:
    """A node's output routes, each with the directory in which its relative path starts."""
    mapping, root = node_mapping(setting, node), setting.job.node_root(node)
    for route in mapping.outputs if mapping else ():
        local = root + route.local if os.path.isabs(route.local) else route.local
        yield dataclasses.replace(route, local=local), Path(setting.job.home(node))
    for channel in setting.rehearsal.channels:
        if not channel.is_input:
            yield channel.route(setting.job, node), Path(root)
