"""The options of a node: environment, inputs and outputs, ranks, start and supervision of the processes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, Callable, NamedTuple

import click

from ma_boot.cli.options.option import (
    DIR,
    FILE,
    SECONDS,
    SECONDS_ABOVE_0,
    RunOption,
    RunVariable,
    Topic,
    Whole,
    by_variable,
    files,
)

ENVIRONMENT = Topic(
    "environment",
    "Python, conda environment and packages of the training",
    (
        "ma_boot --conda-env torch --requirements pip-requirements.txt train.py",
        "ma_boot --python /opt/python/bin/python3 -m package.train --epochs 90",
    ),
    (
        RunOption("-m", "as_module", is_flag=True, common=True, help="COMMAND is a Python module."),
        RunOption(
            "--python", metavar="PATH", shell_complete=files, help="Absolute path of the training's python."
        ),
        RunOption(
            "--conda-env", metavar="NAME", common=True, help="Conda environment of the training, or base."
        ),
        RunOption(
            "--source",
            **FILE,
            multiple=True,
            help="Shell file to source first, e.g. CANN's set_env.sh; here or in the job's code.",
        ),
        RunOption("--requirements", **FILE, common=True, help="Packages to install first, once per node."),
    ),
)


_OBS_ROOT: dict[str, Any] = {**DIR, "help": "Use DIR/BUCKET/KEY instead of obs://BUCKET/KEY."}
_STALL_TIMEOUT: dict[str, Any] = {
    **SECONDS_ABOVE_0,
    "default": 60,
    "help": "Retry a request to OBS that has transferred nothing for this long.",
}
OBS = Topic(
    "obs",
    "inputs and outputs of the training in OBS",
    (
        "ma_boot --path-mapping path_mapping_config.py train.py",
        "ma_boot --path-mapping path_mapping_config.py --upload-timeout 1800 train.py",
    ),
    (
        RunOption("--path-mapping", **FILE, common=True, help="Inputs and outputs in OBS."),
        RunOption("--obs-root", **_OBS_ROOT),
        RunOption(
            "--upload-timeout", **SECONDS, default=600, help="Timeout of the upload after the training."
        ),
        RunVariable(
            "--download-timeout",
            **SECONDS,
            default=600,
            help="Retry a failing request of the inputs for this long; 0: do not retry.",
        ),
        RunVariable("--stall-timeout", **_STALL_TIMEOUT),
        RunOption(
            "--take-over",
            is_flag=True,
            help="Resume from the checkpoints of another job that ended without a word, e.g. killed.",
        ),
    ),
    "See `ma_boot sync --help` for transfers without a job.",
)


class StoreRequest(NamedTuple):
    """How a command reaches OBS without a job; `where` is a path mapping, or a URL."""

    environ: Mapping[str, str]
    where: str
    obs_root: str | None
    stall_timeout: float
    timeout: float


def store_command(
    group: click.Group, argument: str, timeout: int, *options: Callable[..., Any]
) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a function a command of `group` that reaches OBS without a job.

    The function takes a `StoreRequest`, and the values of `options` and of its own ones by their names.
    `timeout` is the default in seconds.
    """
    common: tuple[Callable[..., Any], ...] = (
        click.pass_obj,
        *options,
        by_variable("--stall-timeout", **_STALL_TIMEOUT),
        click.option(
            "--timeout",
            **SECONDS,
            default=timeout,
            show_default=True,
            help="Retry a failing request to OBS for this long; 0: do not retry.",
        ),
        click.option("--obs-root", **_OBS_ROOT),
        click.argument(argument, shell_complete=files),
    )

    def command(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def called(environ: Mapping[str, str], /, **values: Any) -> int:
            names = (argument, *StoreRequest._fields[2:])
            return function(StoreRequest(environ, *(values.pop(name) for name in names)), **values)

        decorated: Any = called
        for decorate in common:
            decorated = decorate(decorated)
        return group.command(name=function.__name__.rstrip("_"))(decorated)

    return command


PRODUCT = click.Choice(["910a", "910b", "a3"])
RANK_ORDER = click.Choice(["pod", "server"])


def _devices(ctx: click.Context, param: click.Parameter, value: Any) -> tuple[int, ...]:
    """Sorted; on 910 servers the devices of a job must be adjacent (PyTorch's guide for NPUs)."""
    parts = str(value).split(",") if value else []
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"found {value!r}, expected numbers such as 1,2")
    devices = tuple(sorted(map(int, parts)))
    if len(set(devices)) != len(devices):
        raise click.BadParameter(f"found {value!r}, which contains a device twice")
    if devices and devices[-1] - devices[0] + 1 != len(devices):
        raise click.BadParameter(f"found {value!r}, expected adjacent devices such as 1,2 or 2,3")
    return devices


RANKS = Topic(
    "ranks",
    "ranks of a node and their devices",
    (
        "ma_boot --devices 1,2 train.py",
        "ma_boot --rank-table-file hccl_16p.json --rank-size 16 --rank-start 8 train.py",
    ),
    (
        RunVariable(
            "--rank-order", type=RANK_ORDER, default="pod", help="Order ranks by pod number or by server_id."
        ),
        RunOption(
            "--devices",
            metavar="LIST",
            callback=_devices,
            common=True,
            help="Adjacent devices of each node to use, e.g. 1,2.",
        ),
        RunVariable(
            "--device-id",
            type=click.Choice(["logical", "physical"]),
            default="logical",
            help="DEVICE_ID: number within the container, or within the server.",
        ),
        RunVariable("--product", type=PRODUCT, help="Ascend product whose rules for rank tables apply."),
        RunVariable(
            "--host-nic-ip", metavar="TEXT", help="host_nic_ip of each server (reserve, for MindSpore 1.x)."
        ),
        RunOption(
            "--rank-table-timeout", **SECONDS, default=1800, help="How long to wait for the rank table."
        ),
        RunOption(
            "--rank-table-file",
            **FILE,
            help="Rank table to use instead of the platform's; not copied if it is template one.",
        ),
        RunOption(
            "--rank-size",
            metavar="N",
            type=Whole(min=1),
            help="Number of ranks in --rank-table-file, as in X2MindSpore's start script.",
        ),
        RunOption("--rank-start", metavar="RANK", type=Whole(min=0), help="First rank of this machine."),
        RunOption("--device-start", metavar="DEVICE", type=Whole(min=0), help="Device of the first rank."),
    ),
    "See `ma_boot rank-table --help` for working with rank tables without a job.",
)


# Of the room platforms, which the help does not load; a test compares them.
PLATFORMS = ["kubeflow", "mindcluster", "modelarts", "openmpi", "slurm", "torchrun", "volcano", "bare"]

START = Topic(
    "start",
    "how the processes start and find each other",
    (
        "ma_boot --rendezvous mindspore --bind-cores numa train.py",
        "ma_boot --per-node torchrun --nproc_per_node '$MABOOT_NPROC' train.py",
    ),
    (
        RunOption(
            "--platform",
            type=click.Choice(PLATFORMS),
            metavar="NAME",
            help="What runs the job: modelarts, volcano, mindcluster, kubeflow, torchrun, slurm, openmpi or "
            "bare; default: by its variables.",
        ),
        RunOption(
            "--rendezvous",
            type=click.Choice(["rank-table", "mindspore", "torch", "mpi", "none"]),
            common=True,
            help="How the processes find each other; default: rank-table, or none with --per-node.",
        ),
        RunVariable(
            "--rendezvous-port",
            metavar="PORT",
            type=Whole(1, 65535),
            help="Rendezvous port on the first node; default: 8118 for mindspore, else 29500.",
        ),
        RunOption(
            "--per-node",
            is_flag=True,
            help="Start COMMAND once per node, if it starts the processes itself, like torchrun. Its "
            "arguments may contain $MABOOT_NNODES, $MABOOT_NODE_RANK, $MABOOT_NPROC, $MABOOT_WORLD_SIZE, "
            "$MABOOT_MASTER_ADDR and $MABOOT_MASTER_PORT.",
        ),
        RunOption(
            "--per-device",
            is_flag=True,
            help="Start COMMAND once per device, even if it seems to start the processes itself.",
        ),
        RunVariable(
            "--non-sink",
            is_flag=True,
            help="MindSpore's non-sink mode, for mpi: GRAPH_OP_RUN=1, HCCL_WHITELIST_DISABLE=1.",
        ),
        RunOption(
            "--workdir",
            type=click.Choice(["shared", "code", "per-rank"]),
            help="Run the processes where ma_boot was started (shared), beside the script (code), or each in "
            "a new device_<rank>, the default with --rank-start and similar options.",
        ),
        RunVariable(
            "--copy-code",
            metavar="GLOB",
            multiple=True,
            help="Files next to the script to copy into each device_<rank>.",
        ),
        RunOption(
            "--bind-cores",
            type=click.Choice(["none", "equal", "numa"]),
            default="none",
            help="Bind ranks to cores: equal shares, or those close to the rank's device.",
        ),
    ),
)


def _tee(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in ("all", "first", "none") or all(part.isdecimal() for part in value.split(",")):
        return value
    raise click.BadParameter(f"found {value!r}, expected all, first, none, or ranks such as 0,3")


def _interval(ctx: click.Context, param: click.Parameter, value: str) -> float:
    try:
        seconds = 0.0 if value == "off" else float(value)
    except ValueError:
        seconds = -1.0
    if seconds == 0 or 1 <= seconds <= 3600:
        return seconds
    raise click.BadParameter(f"found {value!r}, expected 1 to 3600 seconds, or off")


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if port.isdecimal() and int(port) <= 65535 and (host or not colon):
        return value
    raise click.BadParameter(f"found {value!r}, expected PORT (all interfaces) or ADDRESS:PORT")


def _patterns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if values:
        from ma_boot.node.observe.metrics.progress import (
            parse_pattern,  # most jobs have no pattern of their own
        )

        try:
            for value in values:
                parse_pattern(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return values


RUNNING = Topic(
    "running",
    "output, restarts, hangs and stopping of the processes",
    (
        "ma_boot --tee first --max-restarts 3 train.py",
        "ma_boot --hang-timeout 1800 --hang-action stop train.py",
    ),
    (
        RunOption(
            "--tee",
            default="all",
            metavar="RANKS",
            callback=_tee,
            help="Ranks whose output is shown, not only written to files: all, first, none, or a list "
            "such as 0,3.",
        ),
        RunOption("--stop-timeout", **SECONDS, default=15, help="Time between SIGTERM and SIGKILL."),
        RunOption(
            "--max-restarts",
            type=Whole(min=0),
            metavar="N",
            default=0,
            help="Restart all processes after a failure, on all nodes; several nodes need a job token.",
        ),
        RunVariable(
            "--start-seconds", **SECONDS, default=10, help="Do not restart after a failure earlier than this."
        ),
        RunVariable(
            "--time-limit",
            **SECONDS,
            default=0,
            help="When the platform stops the job; should_save() is true before.",
        ),
        RunOption(
            "--hang-timeout",
            **SECONDS_ABOVE_0,
            common=True,
            help="Detect processes that are idle for this long.",
        ),
        RunOption(
            "--hang-action",
            type=click.Choice(["report", "stop"]),
            default="report",
            help="What to do if they hang; stop ends the run with 124.",
        ),
        RunOption(
            "--metrics",
            default="10",
            metavar="SECONDS",
            callback=_interval,
            help="Time between samples of CPU, memory, cards, step and loss, or off.",
        ),
        RunOption(
            "--metric",
            multiple=True,
            metavar="NAME=REGEX",
            separator="\n",
            callback=_patterns,
            help="Value to look for in the output, e.g. 'loss=loss: ([0-9.]+)'.",
        ),
        RunOption(
            "--metrics-port",
            metavar="[ADDRESS:]PORT",
            callback=_address,
            help="Serve the metrics to Prometheus; without ADDRESS on all interfaces.",
        ),
        RunVariable(
            "--channel-port",
            type=Whole(1, 65535),
            metavar="PORT",
            default=29402,
            help="Port of node 0, by which nodes with one MABOOT_JOB_TOKEN report failures and hangs.",
        ),
        RunVariable(
            "--reset-file",
            **FILE,
            help="MindCluster's reset.json, if it is not at /user/restore/reset/config.",
        ),
    ),
)
