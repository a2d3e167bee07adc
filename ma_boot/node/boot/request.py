"""What the user asked of a node: the options of `ma_boot run` as a value, and back to a command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.node.boot.environment_phase import EnvironmentOptions
from ma_boot.node.boot.job_phase import JobOptions
from ma_boot.node.boot.rank_table_phase import RankOptions
from ma_boot.node.boot.run_phase import RunOptions
from ma_boot.node.environment.command import StartScript
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.launch.launch_plan import LaunchOptions
from ma_boot.node.transfers.mapping import TransferOptions
from ma_boot.platform.recognition.recognise import recognise
from ma_boot.redact import without_secret_words
from ma_boot.wording import Message


class BootRequest(NamedTuple):
    """The training command, and the options of each phase: only `boot` and the rehearsal see all of them.

    `ranks_start` is what starts the ranks in place of ma_boot, as the command and the shell script that it
    runs show it, empty if nothing does.
    """

    command: TrainingCommand
    job: JobOptions
    environment: EnvironmentOptions
    ranks: RankOptions
    transfers: TransferOptions
    launch: LaunchOptions
    run: RunOptions
    ranks_start: str = ""


_OF_THE_PLATFORM = ("MA_", "BATCH_", "DLS_", "RANK_TABLE_FILE", "GLOBAL_RANK_TABLE_FILE")
# What is set by a variable, MABOOT_HOST_NIC_IP, and has no option on the command line.
BY_VARIABLE = {
    *("product", "rank_order", "device_id", "host_nic_ip", "rendezvous_port", "non_sink", "copy_code"),
    *("stall_timeout", "download_timeout", "start_seconds", "time_limit", "channel_port", "reset_file"),
}
# The fields of a group are the options of the same names: a new option is one new field.
_GROUPS: dict[str, Any] = {
    "job": JobOptions,
    "environment": EnvironmentOptions,
    "ranks": RankOptions,
    "transfers": TransferOptions,
    "launch": LaunchOptions,
    "run": RunOptions,
}


def requested(
    command: TrainingCommand,
    options: Mapping[str, Any],
    script: StartScript | None = None,
) -> BootRequest:
    """The request that a command line makes, with the defaults that depend on other options.

    A command that starts the processes itself (`--per-node`, a launcher such as torchrun, or a `script` with
    one) also finds the other nodes itself, but a loop of the script needs the rank table; ranks that are
    given by hand run in directories of their own, as in X2MindSpore's script.
    """
    groups = {name: group(*(options[option] for option in group._fields)) for name, group in _GROUPS.items()}
    launch: LaunchOptions = groups["launch"]
    loop = script.ranks if script is not None else None
    ranks_start = command.launcher or (f"{script.name} ({loop})" if script is not None and loop else "")
    per_node = launch.per_node or bool(ranks_start and launch.rendezvous != "mpi" and not launch.per_device)
    by_loop = loop is not None and not loop.by_launcher
    groups["launch"] = launch._replace(
        per_node=per_node,
        rendezvous=launch.rendezvous or ("none" if per_node and not by_loop else "rank-table"),
        workdir=launch.workdir or ("per-rank" if groups["ranks"].by_hand else "shared"),
    )
    return BootRequest(command, **groups, ranks_start=ranks_start)


def as_options(request: BootRequest) -> tuple[str, ...]:
    """The arguments of `ma_boot run` that make this request: how another process is asked to boot."""
    return (*_words(_options(request)), "--", *request.command.words)


def as_variables(request: BootRequest) -> dict[str, str]:
    """The variables `MABOOT_...` that make, together with `as_options`, this request."""
    return _variables(_options(request))


def without_own(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that set options of ma_boot, which are not for the training."""
    own = {f"MABOOT_{name.upper()}" for name in BY_VARIABLE}
    return {name: value for name, value in environ.items() if name not in own}


def boot_command(request: BootRequest) -> str:
    """The boot command with what differs from the defaults, however it was given; variables come first, as in
    a shell. Without secrets."""
    defaults = {name: value for kind in _GROUPS.values() for name, value in kind._field_defaults.items()}
    values = {name: value for name, value in _options(request).items() if value != defaults.get(name)}
    variables = [
        f"{name}={shlex.join(without_secret_words([value]))} " for name, value in _variables(values).items()
    ]
    return "".join([*variables, shown([*_words(values), *request.command.words])])


def _options(request: BootRequest) -> dict[str, Any]:
    """The values of all options, by name."""
    return {name: value for group in _GROUPS for name, value in getattr(request, group)._asdict().items()}


def _variables(values: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the options that have no place on the command line."""
    texts: dict[str, str] = {}
    for name in sorted(BY_VARIABLE & values.keys()):
        value = values[name]
        if value is not None and value is not False and value != ():
            text = ":".join(value) if isinstance(value, tuple) else "1" if value is True else str(value)
            texts[f"MABOOT_{name.upper()}"] = text
    return texts


def shown(words: Sequence[str]) -> str:
    """A command line of ma_boot as a text without secrets."""
    return shlex.join(["ma_boot", *without_secret_words(words)])


def _words(values: Mapping[str, Any]) -> list[str]:
    """Options with these values as words of a command line."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if name in BY_VARIABLE:
            continue
        if name == "devices":
            words += [option, ",".join(map(str, value))] if value else []
        elif isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, tuple):
            words += [word for each in value for word in (option, each)]
        elif value is not None:
            words += [option, str(value)]
    return words


def conflicts(request: BootRequest) -> list[str]:
    """The options of a request that contradict each other: a line for each contradiction."""
    ranks, launch, run = request.ranks, request.launch, request.run
    by = launch.rendezvous
    option = (request.ranks_start or "--per-node") if launch.per_node else "--rendezvous mpi"
    own_directory, each_device = launch.workdir == "per-rank", launch.starts_ranks
    has_table = ranks.rank_table_file is not None and by == "rank-table"
    by_hand_only = "only with --rank-table-file and --rendezvous rank-table"
    not_ours = f"with {option}, ma_boot does not start a process per device" + (
        " (--per-device: it does)" if option == request.ranks_start else ""
    )
    rules = (
        (launch.per_node and by == "mpi", "--per-node: --rendezvous mpi already starts mpirun once per node"),
        (launch.per_node and launch.per_device, "--per-node, --per-device: give one of them"),
        (
            launch.non_sink and by != "mpi",
            "MABOOT_NON_SINK: non-sink mode needs --rendezvous mpi",
        ),
        (bool(launch.copy_code) and not own_directory, "MABOOT_COPY_CODE: only with --workdir per-rank"),
        (ranks.by_hand and not has_table, f"--rank-size, --rank-start, --device-start: {by_hand_only}"),
        (ranks.by_hand and bool(ranks.devices), "--devices: --device-start already selects the devices"),
        (
            ranks.rank_order == "server" and by != "rank-table",
            f"MABOOT_RANK_ORDER=server: with --rendezvous {by}, ranks follow the order of the nodes",
        ),
        (launch.bind_cores != "none" and not each_device, f"--bind-cores: {not_ours}"),
        (own_directory and not each_device, f"--workdir per-rank: {not_ours}"),
        (launch.device_id == "physical" and not each_device, f"MABOOT_DEVICE_ID=physical: {not_ours}"),
        (bool(ranks.devices) and by == "mpi", f"--devices: {not_ours}"),
        (
            run.hang_action == "stop" and run.hang_timeout is None,
            "--hang-action stop: only with --hang-timeout, e.g. --hang-timeout 1800",
        ),
        (
            run.metrics == 0 and bool(run.metric or run.metrics_port),
            "--metric, --metrics-port: --metrics off takes no samples",
        ),
    )
    return [text for broken, text in rules if broken]


def check_platform(request: BootRequest, environ: Mapping[str, str]) -> None:
    """Raises `ConfigError` if a job with a rank table is started where nobody will write one."""
    needs_table = request.launch.rendezvous == "rank-table" and request.ranks.rank_table_file is None
    if not needs_table or any(name.startswith(_OF_THE_PLATFORM) for name in environ):
        return
    if recognise(environ, request.job.platform).name != "bare":
        return
    command = shlex.join(request.command.words)
    raise ConfigError(
        listed(
            Message(
                "this is not a node of a job: no variable of ModelArts (MA_*, RANK_TABLE_FILE) or of another "
                "platform (docs/platforms.md) is set, and nobody will write a rank table; you may want"
            ),
            [
                Message.of("to rehearse the job on this machine: ma_boot --local {}", command),
                Message.of(
                    "to start it here, without a rank table: ma_boot --rendezvous torch {} (or "
                    "mindspore, mpi, none)",
                    command,
                ),
            ],
        )
    )
