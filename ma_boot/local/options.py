"""The options of a rehearsal that have no meaning on the platform, and what they ask for as a value."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import click

from ma_boot.errors import UsageError
from ma_boot.local.faults.grammar import Fault, parse_faults
from ma_boot.steps import BootRequest

if TYPE_CHECKING:
    from ma_boot.local.node_specs import Rehearsal

ALL_FAULTS = "all"


def _bytes(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[int]:
    if value is None:
        return None
    match = re.match(r"(\d+)([kmg]?)$", value.lower())
    if match is not None:
        return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30}[match.group(2)]
    raise click.BadParameter(f"found {value!r}, expected bytes, or a number with k, m or g, as 512m")


_OF_PROCESSES: List[Tuple[Tuple[str, ...], Dict[str, Any]]] = [
    (
        ("--fault",),
        {
            "multiple": True,
            "metavar": "FAULT",
            "help": "--local: what goes wrong, as 'kill rank=3 at=5s'; or all: the catalogue, and a table.",
        },
    ),
    (
        ("--obs-server",),
        {"is_flag": True, "help": "--local: serve --obs-root as OBS, with keys of this run."},
    ),
    (
        ("--sandbox",),
        {
            "type": click.Choice(["bwrap"]),
            "help": "--local: /home/ma-user, /cache, /user/config by bubblewrap.",
        },
    ),
    (
        ("--input",),
        {
            "multiple": True,
            "metavar": "NAME=OBS",
            "help": "--local: an input of the job form, as data_url=obs://bucket/data/.",
        },
    ),
    (("--output",), {"multiple": True, "metavar": "NAME=OBS", "help": "--local: an output of the job form."}),
    (
        ("--append-args",),
        {"metavar": "ARGS", "default": "", "help": "--local: what the platform appends to COMMAND."},
    ),
]
_OF_CONTAINERS: List[Tuple[Tuple[str, ...], Dict[str, Any]]] = [
    (
        ("--runner",),
        {
            "type": click.Choice(["process", "docker"]),
            "default": "process",
            "show_default": True,
            "help": "--local: each node is a process, or a container of --image.",
        },
    ),
    (("--image",), {"metavar": "IMAGE", "help": "--runner docker: the job's image."}),
    (
        ("--offline",),
        {
            "is_flag": True,
            "help": "--runner docker: no Internet, as on ModelArts; --obs-root is served.",
        },
    ),
    (
        ("--memory",),
        {
            "callback": _bytes,
            "metavar": "SIZE",
            "help": "--runner docker: memory of a node, as 512m or 64g.",
        },
    ),
    (
        ("--shm-size",),
        {
            "callback": _bytes,
            "metavar": "SIZE",
            "default": "2g",
            "show_default": True,
            "help": "--runner docker: /dev/shm of a node.",
        },
    ),
    (("--keep",), {"is_flag": True, "help": "--runner docker: leave the containers for a look."}),
]
NAMES = tuple(names[0].lstrip("-").replace("-", "_") for names, _ in _OF_PROCESSES)
OPTIONS = (*_OF_PROCESSES, *_OF_CONTAINERS)


def rehearsal_of(request: BootRequest, settings: Mapping[str, Any]) -> Rehearsal:
    """What to rehearse; raises `UsageError` for options that do not fit together."""
    from ma_boot.local.channels import (
        parse_channels,
    )  # it knows transfers, which the command line need not load
    from ma_boot.local.node_specs import Rehearsal

    own = {name: value for name, value in settings.items() if name not in NAMES}
    if settings["fault"] == (ALL_FAULTS,):
        faults: Tuple[Fault, ...] = ()
    else:
        faults = parse_faults(settings["fault"], settings["nodes"], settings["devices_per_node"])
    served = settings["obs_server"] or any(fault.stage == "obs" for fault in faults)
    if served and request.obs_root is None and settings["fault"] != (ALL_FAULTS,):
        raise UsageError("--obs-server and faults of OBS need --obs-root: the directory that is served")
    return Rehearsal(
        request=request,
        faults=faults,
        obs_server=served,
        sandbox=settings["sandbox"],
        channels=parse_channels(settings["input"], settings["output"]),
        appended=tuple(_words(settings["append_args"])),
        **own,
    )


def _words(text: str) -> List[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--append-args {text!r}: {error}") from error
