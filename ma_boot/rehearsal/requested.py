"""What the options of a rehearsal ask for, as values."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any, List, Mapping, Tuple

from ma_boot.errors import UsageError
from ma_boot.node import BootRequest
from ma_boot.rehearsal.containers.container_plan import ContainerOptions
from ma_boot.rehearsal.faults import ALL_FAULTS, Fault, parse_faults
from ma_boot.rehearsal.node_specs import Rehearsal
from ma_boot.rehearsal.platform.job_form import parse_channels


def rehearsal_of(request: BootRequest, options: Mapping[str, Any]) -> Rehearsal:
    """What to rehearse; raises `UsageError` for options that do not fit together."""
    nodes, devices = options["nodes"], options["devices_per_node"]
    all_faults = options["fault"] == ALL_FAULTS
    faults: Tuple[Fault, ...] = () if all_faults else parse_faults(options["fault"], nodes, devices)
    served = options["obs_server"] or any(fault.stage == "obs" for fault in faults)
    if served and request.transfers.obs_root is None and not all_faults:
        raise UsageError("--obs-server and faults of OBS need --obs-root: the directory that is served")
    return Rehearsal(
        request=request,
        nodes=nodes,
        devices_per_node=devices,
        rank_table_delay=options["rank_table_delay"],
        code_dir=options["code_dir"],
        rehearsal_dir=options["rehearsal_dir"],
        faults=faults,
        appended=tuple(_words(options["append_args"] or "")),
        channels=parse_channels(options["input"], options["output"]),
        obs_server=served,
        sandbox=options["sandbox"],
    )


def containers_of(options: Mapping[str, Any]) -> ContainerOptions:
    """The containers to rehearse in."""
    return ContainerOptions(**{field.name: options[field.name] for field in fields(ContainerOptions)})


def _words(text: str) -> List[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--append-args {text!r}: {error}") from error
