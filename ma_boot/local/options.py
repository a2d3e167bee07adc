"""The options of a rehearsal that have no meaning on the platform, and what they ask for as a value."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Tuple

import click

from ma_boot.errors import UsageError
from ma_boot.local.faults.grammar import Fault, parse_faults
from ma_boot.request import BootRequest

if TYPE_CHECKING:
    from ma_boot.local.node_specs import Rehearsal

ALL_FAULTS = ("all",)


OPTIONS: List[Tuple[Tuple[str, ...], Dict[str, Any]]] = [
    (
        ("--fault",),
        {
            "multiple": True,
            "metavar": "FAULT",
            "help": "What goes wrong, as 'kill rank=3 at=5s'; or all: the catalogue, and a table.",
        },
    ),
    (
        ("--obs-server",),
        {"is_flag": True, "help": "Serve --obs-root as OBS, with keys of this run."},
    ),
    (
        ("--sandbox",),
        {
            "type": click.Choice(["bwrap"]),
            "help": "Show /home/ma-user, /cache, /user/config by bubblewrap.",
        },
    ),
    (
        ("--input",),
        {
            "multiple": True,
            "metavar": "NAME=OBS",
            "help": "An input of the job form, as data_url=obs://bucket/data/.",
        },
    ),
    (("--output",), {"multiple": True, "metavar": "NAME=OBS", "help": "An output of the job form."}),
    (
        ("--append-args",),
        {"metavar": "ARGS", "default": "", "help": "What the platform appends to COMMAND."},
    ),
]
NAMES = tuple(names[0].lstrip("-").replace("-", "_") for names, _ in OPTIONS)


def rehearsal_of(request: BootRequest, settings: Mapping[str, Any]) -> Rehearsal:
    """What to rehearse; raises `UsageError` for options that do not fit together."""
    from ma_boot.local.channels import (
        parse_channels,
    )  # it knows transfers, which the command line need not load
    from ma_boot.local.node_specs import Rehearsal

    own = {name: value for name, value in settings.items() if name not in NAMES}
    if settings["fault"] == ALL_FAULTS:
        faults: Tuple[Fault, ...] = ()
    else:
        faults = parse_faults(settings["fault"], settings["nodes"], settings["devices_per_node"])
    served = settings["obs_server"] or any(fault.stage == "obs" for fault in faults)
    if served and request.obs_root is None and settings["fault"] != ALL_FAULTS:
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
