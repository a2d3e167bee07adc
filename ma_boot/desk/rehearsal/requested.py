"""The rehearsal that the options ask for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ma_boot.desk.rehearsal.faults import Fault, parse_faults
from ma_boot.desk.rehearsal.platform.simulated_job import FormChannel, parse_channels
from ma_boot.errors import UsageError
from ma_boot.node.boot.request import BootRequest
from ma_boot.node.option import fill
from ma_boot.node.rehearsal_options import ContainerOptions, RehearsalOptions


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsal to run: the job's own options in `request`, those of the rehearsal in `options`.

    `faults`, `appended` (arguments) and `channels` (inputs and outputs of the job form) are parsed from
    `options`. `typed` are the words of the command line.
    """

    request: BootRequest
    options: RehearsalOptions
    faults: tuple[Fault, ...] = ()
    appended: tuple[str, ...] = ()
    channels: tuple[FormChannel, ...] = ()
    typed: tuple[str, ...] = ()

    def faults_of(self, stage: str) -> list[Fault]:
        """The faults of one stage: `rank`, `node`, `table`, `obs` or `disk`."""
        return [fault for fault in self.faults if fault.stage == stage]

    def has_bad_card(self, node: int) -> bool:
        """Returns whether a card of the node breaks."""
        return any(fault.kind == "bad-card" and fault.node == node for fault in self.faults)

    def small_disks(self, node: int) -> dict[str, int]:
        """The directories of a node with limited space, and their sizes in bytes."""
        faults = (fault for fault in self.faults_of("disk") if fault.node == node)
        return {fault.path: fault.size for fault in faults if fault.path and fault.size}


def rehearsal_of(request: BootRequest, options: Mapping[str, Any], typed: Sequence[str] = ()) -> Rehearsal:
    """The rehearsal for these options; raises `UsageError` if one is invalid or contradicts others."""
    own = fill(RehearsalOptions, options)
    faults = parse_faults(own.fault, own.nodes, own.devices_per_node, own.runner == "docker")
    if request.transfers.obs_root is None and any(fault.stage == "obs" for fault in faults):
        raise UsageError("faults of OBS need --obs-root: the directory that is served as OBS")
    try:
        appended = tuple(shlex.split(own.append_args or ""))
    except ValueError as error:
        raise UsageError(f"--append-args {own.append_args!r}: {error}") from error
    channels = parse_channels(own.input, own.output)
    return Rehearsal(request, own, faults, appended=appended, channels=channels, typed=tuple(typed))


def containers_of(options: Mapping[str, Any]) -> ContainerOptions:
    """The containers to rehearse in."""
    return fill(ContainerOptions, options)
