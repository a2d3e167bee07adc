"""The options of `ma_boot run`."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

import click

from ma_boot.cores import BIND_CORES
from ma_boot.launch import DEVICE_IDS, RENDEZVOUS, WORKDIRS
from ma_boot.local.options import OPTIONS as REHEARSAL_OPTIONS
from ma_boot.rank_table import PRODUCTS, RANK_ORDERS

Function = TypeVar("Function", bound=Callable[..., Any])


class GroupedOption(click.Option):
    """An option that stands under a title in the help."""

    def __init__(self, *names: Any, group: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help has its options under titles."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes them in their order; those without a title come last."""
        sections: Dict[str, List[Tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "group", "Other"), []).append(record)
        for title, records in sorted(sections.items(), key=lambda section: section[0] == "Other"):
            with formatter.section(title):
                formatter.write_dl(records)


_SECONDS = click.FloatRange(min=0)


def run_options(function: Function) -> Function:
    """Gives a command all of them, in the order of its help."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _tee(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in ("all", "first", "none") or all(part.isdecimal() for part in value.split(",")):
        return value
    raise click.BadParameter(f"found {value!r}, expected all, first, none, or ranks as 0,3")


def _bytes(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[int]:
    if value is None:
        return None
    match = re.match(r"(\d+)([kmg]?)$", value.lower())
    if match is not None:
        return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30}[match.group(2)]
    raise click.BadParameter(f"found {value!r}, expected bytes, or a number with k, m or g, as 512m")


def _option(*names: str, **settings: Any) -> Tuple[Tuple[str, ...], Dict[str, Any]]:
    return names, {"show_default": False, **settings}


def _group(
    title: str, *options: Tuple[Tuple[str, ...], Dict[str, Any]]
) -> Iterator[Callable[[Function], Function]]:
    """Options that stand under one title in the help."""
    for names, settings in options:
        yield click.option(*names, cls=GroupedOption, group=title, **settings)


def _devices(ctx: click.Context, param: click.Parameter, value: Any) -> Tuple[int, ...]:
    """Sorted; 910 servers want the devices of a job beside each other (PyTorch's guide for NPU)."""
    parts = str(value).split(",") if value else []
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"found {value!r}, expected numbers as 1,2")
    devices = tuple(sorted(map(int, parts)))
    if len(set(devices)) != len(devices):
        raise click.BadParameter(f"found {value!r}, which names a device twice")
    if devices and devices[-1] - devices[0] + 1 != len(devices):
        raise click.BadParameter(f"found {value!r}, expected devices that are adjacent, as 1,2 or 2,3")
    return devices


_OPTIONS: List[Callable[[Any], Any]] = [
    *_group(
        "Environment of the training",
        _option("-m", "as_module", is_flag=True, help="COMMAND is a Python module."),
        _option("--python", metavar="PATH", help="Absolute path of the python that runs the training."),
        _option(
            "--conda-env", metavar="NAME", help="Conda environment of the training, as `conda run -n NAME`."
        ),
        _option(
            "--source",
            metavar="FILE",
            multiple=True,
            help="Shell file to source before, e.g. CANN's set_env.sh.",
        ),
        _option(
            "--requirements",
            metavar="FILE",
            help="Packages to install before, once on each node, e.g. pip-requirements.txt.",
        ),
    ),
    *_group(
        "Inputs and outputs",
        _option("--path-mapping", metavar="FILE", help="path_mapping_config.py: inputs and outputs in OBS."),
        _option(
            "--obs-root", metavar="DIR", help="Take obs://BUCKET/KEY from DIR/BUCKET/KEY instead of OBS."
        ),
        _option(
            "--upload-timeout",
            type=_SECONDS,
            metavar="SECONDS",
            default=600,
            show_default=True,
            help="Longest last upload.",
        ),
        _option(
            "--stall-timeout",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            default=60,
            show_default=True,
            help="A request to OBS of which nothing moves for so long has failed, and is made again.",
        ),
    ),
    *_group(
        "Ranks and devices",
        _option(
            "--rank-order",
            type=click.Choice(RANK_ORDERS),
            default="pod",
            show_default=True,
            help="Ranks by the number of the pod, or by server_id.",
        ),
        _option(
            "--devices",
            metavar="LIST",
            callback=_devices,
            help="Devices of each node to use, adjacent ones, as 1,2.",
        ),
        _option(
            "--device-id",
            type=click.Choice(DEVICE_IDS),
            default="logical",
            show_default=True,
            help="DEVICE_ID: place in this container, or number in the machine.",
        ),
        _option(
            "--product", type=click.Choice(PRODUCTS), help="Ascend product, for the rules of its rank tables."
        ),
        _option(
            "--host-nic-ip", metavar="TEXT", help="host_nic_ip of each server (reserve, for MindSpore 1.x)."
        ),
        _option(
            "--rank-table-timeout",
            type=_SECONDS,
            metavar="SECONDS",
            default=1800,
            show_default=True,
            help="Longest wait for the rank table.",
        ),
        _option(
            "--rank-table-file",
            metavar="FILE",
            help="The rank table, instead of the platform's; template one is used where it is.",
        ),
        _option(
            "--rank-size",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of ranks in --rank-table-file, as the start scripts of X2MindSpore take it.",
        ),
        _option(
            "--rank-start", metavar="RANK", type=click.IntRange(min=0), help="First rank of this machine."
        ),
        _option(
            "--device-start", metavar="DEVICE", type=click.IntRange(min=0), help="Device of the first rank."
        ),
    ),
    *_group(
        "How the processes start",
        _option(
            "--rendezvous",
            type=click.Choice(RENDEZVOUS),
            help="How the processes find each other; if not given rank-table, or none with --per-node.",
        ),
        _option(
            "--rendezvous-port",
            metavar="PORT",
            type=click.IntRange(1, 65535),
            help="Port of the first node where they meet: 8118 for mindspore, else 29500.",
        ),
        _option(
            "--per-node",
            is_flag=True,
            help="Start COMMAND once on each node: it starts the processes itself, as torchrun does. Its "
            "arguments may name $MABOOT_NNODES, $MABOOT_NODE_RANK, $MABOOT_NPROC, $MABOOT_WORLD_SIZE, "
            "$MABOOT_MASTER_ADDR and $MABOOT_MASTER_PORT.",
        ),
        _option(
            "--non-sink",
            is_flag=True,
            help="MindSpore's non-sink mode, with mpi: GRAPH_OP_RUN=1, HCCL_WHITELIST_DISABLE=1.",
        ),
        _option(
            "--workdir",
            type=click.Choice(WORKDIRS),
            help="Where the processes run: here (shared), or each in a fresh device_<rank>, which is what "
            "--rank-start and its like mean.",
        ),
        _option(
            "--copy-code",
            metavar="GLOB",
            multiple=True,
            help="Files beside the script to copy into each device_<rank>.",
        ),
        _option(
            "--bind-cores",
            type=click.Choice(BIND_CORES),
            default="none",
            show_default=True,
            help="Cores of each rank: equal shares, or those near its device.",
        ),
    ),
    *_group(
        "While they run",
        _option(
            "--tee",
            default="all",
            show_default=True,
            metavar="RANKS",
            callback=_tee,
            help="Ranks whose output is shown here, not in their files only: all, first, none, or as 0,3.",
        ),
        _option(
            "--stop-timeout",
            type=_SECONDS,
            metavar="SECONDS",
            default=15,
            show_default=True,
            help="Between SIGTERM and SIGKILL for the processes.",
        ),
        _option(
            "--max-restarts",
            type=click.IntRange(min=0),
            metavar="N",
            default=0,
            show_default=True,
            help="Start all processes again after a failure; jobs of one node only.",
        ),
        _option(
            "--start-seconds",
            type=_SECONDS,
            metavar="SECONDS",
            default=10,
            show_default=True,
            help="An earlier failure is no reason for a restart.",
        ),
        _option(
            "--hang-timeout",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Watch for processes without output and CPU time for so long.",
        ),
        _option(
            "--hang-action",
            type=click.Choice(["report", "stop"]),
            default="report",
            show_default=True,
            help="What to do about a hang.",
        ),
    ),
    *_group(
        "Before a job, and without one",
        _option(
            "--preflight", is_flag=True, help="Check the container first: the cheap half of ma_boot doctor."
        ),
        _option("--plan", is_flag=True, help="Print what would be started, and stop."),
        _option("--json", "as_json", is_flag=True, help="Print the plan as JSON."),
    ),
    *_group(
        "The rehearsal",
        _option("--local", is_flag=True, help="Rehearse the job on this machine; what follows is for it."),
        _option(
            "--nodes",
            metavar="N",
            type=click.IntRange(1, 1024),
            default=1,
            show_default=True,
            help="Number of nodes.",
        ),
        _option(
            "--devices-per-node",
            metavar="N",
            type=click.IntRange(1, 16),
            default=1,
            show_default=True,
            help="Cards of each node.",
        ),
        _option(
            "--rank-table-delay",
            type=_SECONDS,
            metavar="SECONDS",
            default=2,
            show_default=True,
            help="Until the rank table is completed.",
        ),
        _option("--code-dir", metavar="DIR", help="The job's code directory; if not given that of COMMAND."),
        _option(
            "--rehearsal-dir",
            metavar="DIR",
            default="ma_boot-rehearsal",
            show_default=True,
            help="Where the simulated nodes live.",
        ),
        *REHEARSAL_OPTIONS,
        _option(
            "--runner",
            type=click.Choice(["process", "docker"]),
            default="process",
            show_default=True,
            help="Each node is a process, or a container of --image.",
        ),
        _option("--image", metavar="IMAGE", help="--runner docker: the job's image."),
        _option("--offline", is_flag=True, help="--runner docker: no Internet; --obs-root is served."),
        _option(
            "--memory",
            callback=_bytes,
            metavar="SIZE",
            help="--runner docker: memory of a node, as 512m or 64g.",
        ),
        _option(
            "--shm-size",
            callback=_bytes,
            metavar="SIZE",
            default="2g",
            show_default=True,
            help="--runner docker: /dev/shm of a node.",
        ),
        _option("--keep", is_flag=True, help="--runner docker: leave the containers for a look."),
    ),
]
