"""Options of the boot itself: the platform, the training's environment, the ranks, and running processes."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ma_boot.node.option import FILE, SECONDS, SECONDS_ABOVE_0, ValueKind, choice, option, option_group, whole
from ma_boot.platform.rank_table.rules import PRODUCTS
from ma_boot.platform.recognition.recognise import PLATFORM_NAMES

RANK_ORDERS = ("pod", "server")
_environment = partial(option, topic="environment")
_ranks = partial(option, topic="ranks")
_running = partial(option, topic="running")
_restarts = partial(option, topic="restarts")


@option_group
class JobOptions(NamedTuple):
    """Options for the platform and the first checks; `platform` is None if its variables identify it."""

    platform: str | None = option(
        None,
        "What runs the job: modelarts, volcano, mindcluster, kubeflow, torchrun, slurm, openmpi or bare; "
        "default: by its variables.",
        kind=choice(*PLATFORM_NAMES, metavar="NAME"),
        topic="start",
    )
    preflight: bool = option(
        False, "Run the quick checks of ma_boot doctor first.", topic="plan", common=True
    )


@option_group
class EnvironmentOptions(NamedTuple):
    """Options for the training's Python, shell environment and packages."""

    python: str | None = _environment(
        None, "Absolute path of the training's python.", kind=ValueKind("PATH", completes="file")
    )
    conda_env: str | None = _environment(
        None, "Conda environment of the training, or base.", kind=ValueKind("NAME"), common=True
    )
    source: tuple[str, ...] = _environment(
        (),
        "Shell file to source first, e.g. CANN's set_env.sh; here or in the job's code.",
        kind=FILE,
        multiple=True,
    )
    requirements: str | None = _environment(
        None, "Packages to install first, once per node.", kind=FILE, common=True
    )


def _parse_devices(text: str) -> tuple[int, ...]:
    """Device numbers in ascending order, which must be adjacent on 910 servers (PyTorch's guide for NPUs)."""
    parts = text.split(",") if text else []
    if not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"found {text!r}, expected numbers such as 1,2")
    devices = tuple(sorted(map(int, parts)))
    if len(set(devices)) != len(devices):
        raise ValueError(f"found {text!r}, which contains a device twice")
    if devices and devices[-1] - devices[0] + 1 != len(devices):
        raise ValueError(f"found {text!r}, expected adjacent devices such as 1,2 or 2,3")
    return devices


def _write_devices(devices: tuple[int, ...]) -> str:
    return ",".join(map(str, devices))


@option_group
class RankOptions(NamedTuple):
    """Options for the ranks of a node; the timeout is in seconds."""

    rank_order: str = _ranks(
        "pod", "Order ranks by pod number or by server_id.", kind=choice(*RANK_ORDERS), variable_only=True
    )
    devices: tuple[int, ...] = _ranks(
        (),
        "Adjacent devices of each node to use, e.g. 1,2.",
        kind=ValueKind("LIST", _parse_devices, _write_devices),
        common=True,
    )
    product: str | None = _ranks(
        None, "Ascend product whose rules for rank tables apply.", kind=choice(*PRODUCTS), variable_only=True
    )
    host_nic_ip: str | None = _ranks(
        None,
        "host_nic_ip of each server (reserve, for MindSpore 1.x).",
        kind=ValueKind("TEXT"),
        variable_only=True,
    )
    rank_table_timeout: float = _ranks(1800.0, "How long to wait for the rank table.", kind=SECONDS)
    rank_table_file: str | None = _ranks(
        None, "Rank table to use instead of the platform's; not copied if it is template one.", kind=FILE
    )
    rank_size: int | None = _ranks(
        None, "Number of ranks in --rank-table-file, as in X2MindSpore's start script.", kind=whole("N", 1)
    )
    rank_start: int | None = _ranks(None, "First rank of this machine.", kind=whole("RANK"))
    device_start: int | None = _ranks(None, "Device of the first rank.", kind=whole("DEVICE"))

    @property
    def by_hand(self) -> bool:
        """True if the user gives the ranks of this machine, as to the script that X2MindSpore generates."""
        return any(given is not None for given in (self.rank_size, self.rank_start, self.device_start))


def _parse_interval(text: str) -> float:
    """Seconds between two samples; 0 for `off`."""
    try:
        seconds = 0.0 if text == "off" else float(text)
    except ValueError:
        seconds = -1.0
    if seconds == 0 or 1 <= seconds <= 3600:
        return seconds
    raise ValueError(f"found {text!r}, expected 1 to 3600 seconds, or off")


def _parse_address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if port.isdecimal() and int(port) <= 65535 and (host or not colon):
        return text
    raise ValueError(f"found {text!r}, expected PORT (all interfaces) or ADDRESS:PORT")


def _parse_pattern(text: str) -> str:
    from ma_boot.node.observe.metrics.progress import parse_pattern  # most jobs have no pattern of their own

    parse_pattern(text)
    return text


def _parse_expression(text: str) -> str:
    from ma_boot.node.peers.user_patterns import parse_expression  # most jobs have no expression

    return parse_expression(text)


def _parse_url(text: str) -> str:
    from path_mapping.mapping.routes import ObsUrl  # likewise

    ObsUrl.typed(text)
    return text


@option_group
class RunOptions(NamedTuple):
    """Options for the running processes; times are in seconds.

    Failed processes are restarted up to `max_restarts` times where that may help (`decide`), provided that
    they have run for `start_seconds`; and as often as `reset_file`, MindCluster's `reset.json`, asks for it.
    """

    stop_timeout: float = _running(15.0, "Time between SIGTERM and SIGKILL.", kind=SECONDS)
    max_restarts: int = _restarts(
        0,
        "Restart all processes after a failure, on all nodes; several nodes need a job token.",
        kind=whole("N"),
    )
    retry_on: tuple[str, ...] = _restarts(
        (),
        "Restart for failures whose message has this, whatever the rules say.",
        kind=ValueKind("REGEX", _parse_expression),
        multiple=True,
        separator="\n",
    )
    no_retry_on: tuple[str, ...] = _restarts(
        (),
        "Never restart for failures whose message has this.",
        kind=ValueKind("REGEX", _parse_expression),
        multiple=True,
        separator="\n",
    )
    ledger: str | None = _restarts(
        None,
        "URL of the job's ledger; default: beside its checkpoints.",
        kind=ValueKind("URL", _parse_url),
        variable_only=True,
    )
    ignore_ledger: bool = _restarts(
        False,
        "Start even if earlier starts have failed in the same way.",
        variable_only=True,
    )
    start_seconds: float = _restarts(
        10.0, "Do not restart after a failure earlier than this.", kind=SECONDS, variable_only=True
    )
    time_limit: float = _running(
        0.0,
        "When the platform stops the job; should_save() is true before.",
        kind=SECONDS,
        variable_only=True,
    )
    hang_timeout: float | None = _running(
        None, "Time without progress: a hang.", kind=SECONDS_ABOVE_0, common=True
    )
    hang_action: str = _running("report", "stop ends the run with 124.", kind=choice("report", "stop"))
    collectives: str = _running(
        "read",
        "Name the collective of a hang.",
        kind=choice("read", "off"),
        variable_only=True,
    )
    metrics: float = _running(
        10.0,
        "Time between samples of CPU, memory, cards, step and loss, or off.",
        kind=ValueKind("SECONDS", _parse_interval),
    )
    metric: tuple[str, ...] = _running(
        (),
        "Value to look for in the output, e.g. 'loss=loss: ([0-9.]+)'.",
        kind=ValueKind("NAME=REGEX", _parse_pattern),
        multiple=True,
        separator="\n",
    )
    metrics_port: str | None = _running(
        None,
        "Serve the metrics to Prometheus; without ADDRESS on all interfaces.",
        kind=ValueKind("[ADDRESS:]PORT", _parse_address),
    )
    channel_port: int = _running(
        29402,
        "Port of node 0, by which nodes with one MABOOT_JOB_TOKEN report failures and hangs.",
        kind=whole("PORT", 1, 65535),
        variable_only=True,
    )
    script_ranks: str = _running(
        "check",
        "If a rank of COMMAND fails: stop the job, report it, or off.",
        kind=choice("check", "report", "off"),
        variable_only=True,
    )
    script_rank_grace: float = _running(
        30.0,
        "How long the others may run then.",
        kind=SECONDS,
        variable_only=True,
    )
    reset_file: str | None = _restarts(
        None,
        "MindCluster's reset.json, if it is not at /user/restore/reset/config.",
        kind=FILE,
        variable_only=True,
    )
