"""What to rehearse, as the options ask for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ma_boot.desk.rehearsal.containers.container_plan import ContainerOptions
from ma_boot.desk.rehearsal.faults import Fault, parse_faults
from ma_boot.desk.rehearsal.kept import KEEP
from ma_boot.desk.rehearsal.platform.simulated_job import FormChannel, parse_channels
from ma_boot.errors import UsageError
from ma_boot.node.boot.request import BootRequest


@dataclass(frozen=True)
class Rehearsal:
    """What to rehearse: paths as the user wrote them, the delay in seconds.

    `channels` are the inputs and outputs of the job form, `appended` further arguments; `sandbox` is None or
    `bwrap`; the nodes get no code that matches a pattern of `exclude`. `typed` are the words of the command
    line. Of the rehearsals in `rehearsal_dir`, the `keep` newest stay.
    """

    request: BootRequest
    nodes: int
    devices_per_node: int
    rank_table_delay: float
    code_dir: str | None
    rehearsal_dir: str
    faults: tuple[Fault, ...] = ()
    appended: tuple[str, ...] = ()
    channels: tuple[FormChannel, ...] = ()
    sandbox: str | None = None
    exclude: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    keep: int = KEEP

    def faults_of(self, stage: str) -> list[Fault]:
        """The faults of one stage: `rank`, `node`, `table`, `obs` or `disk`."""
        return [fault for fault in self.faults if fault.stage == stage]

    def has_bad_card(self, node: int) -> bool:
        """Whether a card of the node breaks."""
        return any(fault.kind == "bad-card" and fault.node == node for fault in self.faults)

    def small_disks(self, node: int) -> dict[str, int]:
        """The directories of a node with limited space, and their sizes in bytes."""
        faults = (fault for fault in self.faults_of("disk") if fault.node == node)
        return {fault.path: fault.size for fault in faults if fault.path and fault.size}


def rehearsal_of(request: BootRequest, options: Mapping[str, Any], typed: Sequence[str] = ()) -> Rehearsal:
    """What to rehearse; raises `UsageError` if an option is invalid, or contradicts others."""
    nodes, devices = options["nodes"], options["devices_per_node"]
    faults = parse_faults(options["fault"], nodes, devices, options["runner"] == "docker")
    if request.transfers.obs_root is None and any(fault.stage == "obs" for fault in faults):
        raise UsageError("faults of OBS need --obs-root: the directory that is served as OBS")
    try:
        appended = tuple(shlex.split(options["append_args"] or ""))
    except ValueError as error:
        raise UsageError(f"--append-args {options['append_args']!r}: {error}") from error
    return Rehearsal(
        request=request,
        nodes=nodes,
        devices_per_node=devices,
        rank_table_delay=options["rank_table_delay"],
        code_dir=options["code_dir"],
        rehearsal_dir=options["rehearsal_dir"],
        faults=faults,
        appended=appended,
        channels=parse_channels(options["input"], options["output"]),
        sandbox=options["sandbox"],
        exclude=tuple(options["exclude"]),
        typed=tuple(typed),
        keep=options["keep_rehearsals"],
    )


def containers_of(options: Mapping[str, Any]) -> ContainerOptions:
    """The containers to rehearse in."""
    return ContainerOptions(**{field.name: options[field.name] for field in fields(ContainerOptions)})
