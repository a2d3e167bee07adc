"""Boot requests: a training command with the options of `ma_boot run`, as values and as command lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.node.boot.options import EnvironmentOptions, JobOptions, RankOptions, RunOptions
from ma_boot.node.environment.command import StartScript
from ma_boot.node.environment.command_words import RAY, TrainingCommand
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.option import Option, fill, options_in
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.platform.recognition.recognise import recognise
from ma_boot.redact import without_secret_words
from ma_boot.wording import Message


class BootRequest(NamedTuple):
    """The training command, and the options by groups: each phase of the boot gets its own group.

    `ranks_start` names the program that starts the ranks in place of ma_boot, as the command and the shell
    script that it runs show it; empty if ma_boot starts them.
    """

    command: TrainingCommand
    job: JobOptions
    environment: EnvironmentOptions
    ranks: RankOptions
    transfers: TransferOptions
    launch: LaunchOptions
    run: RunOptions
    ranks_start: str = ""


# Beginnings of variables that a platform sets on each node of a job.
_OF_THE_PLATFORM = ("MA_", "BATCH_", "DLS_", "RANK_TABLE_FILE", "GLOBAL_RANK_TABLE_FILE")
GROUPS: dict[str, Any] = {
    "job": JobOptions,
    "environment": EnvironmentOptions,
    "ranks": RankOptions,
    "transfers": TransferOptions,
    "launch": LaunchOptions,
    "run": RunOptions,
}


def build_request(
    command: TrainingCommand, options: Mapping[str, Any], script: StartScript | None = None
) -> BootRequest:
    """The request that a command line makes, with the defaults that depend on other options.

    A command that starts the ranks itself (`--per-node`, a launcher such as torchrun, or a `script` with one)
    also finds the peers itself, by variables that launchers read, but a loop in the script needs the rank
    table. Ranks that are given by hand
    run in directories of their own, as in X2MindSpore's script.
    """
    groups = {name: fill(group, options) for name, group in GROUPS.items()}
    launch: LaunchOptions = groups["launch"]
    loop = script.ranks if script is not None else None
    ranks_start = command.launcher or (f"{script.name} ({loop})" if script is not None and loop else "")
    per_node = launch.per_node or bool(ranks_start and launch.rendezvous != "mpi" and not launch.per_device)
    by_loop = loop is not None and not loop.by_launcher
    groups["launch"] = launch._replace(
        per_node=per_node,
        rendezvous=launch.rendezvous or ("launcher" if per_node and not by_loop else "rank-table"),
        workdir=launch.workdir or ("per-rank" if groups["ranks"].by_hand else "shared"),
    )
    starts_ray = command.launcher == RAY or (script is not None and script.starts_ray)
    return BootRequest(command._replace(starts_ray=starts_ray), **groups, ranks_start=ranks_start)


def as_options(request: BootRequest) -> tuple[str, ...]:
    """The arguments of `ma_boot run` that make this request in another process."""
    words = [word for option, value in _values(request) for word in option.arguments(value)]
    return (*words, "--", *request.command.words)


def as_variables(request: BootRequest) -> dict[str, str]:
    """The variables `MABOOT_...` that make, together with `as_options`, this request."""
    variables = [each for option, value in _values(request) for each in option.assignment(value).items()]
    return dict(sorted(variables))


def without_own(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that set options of ma_boot: they are not for the training."""
    options = [option for group in GROUPS.values() for option in options_in(group)]
    own = {option.variable for option in options if option.variable_only}
    return {name: value for name, value in environ.items() if name not in own}


def boot_command(request: BootRequest, replaces_shell: bool = False) -> str:
    """The boot command as a shell takes it, without secrets: options that differ from their defaults, rare
    ones as variables before it.

    With `replaces_shell` it begins with `exec`: stop signals reach ma_boot, not a shell above it.
    """
    changed = [(option, value) for option, value in _values(request) if value != option.default]
    variables = sorted(each for option, value in changed for each in option.assignment(value).items())
    words = [word for option, value in changed for word in option.arguments(value)]
    assignments = "".join(f"{name}={shlex.join(without_secret_words([text]))} " for name, text in variables)
    return assignments + ("exec " if replaces_shell else "") + command_text([*words, *request.command.words])


def command_text(words: Sequence[str]) -> str:
    """A command line of ma_boot as a text without secrets."""
    return shlex.join(["ma_boot", *without_secret_words(words)])


def _values(request: BootRequest) -> Iterator[tuple[Option, Any]]:
    """Each option of the request with its value."""
    for name, group in GROUPS.items():
        values = getattr(request, name)
        for option in options_in(group):
            yield option, getattr(values, option.name)


def find_conflicts(request: BootRequest) -> list[str]:
    """Returns a line for each contradiction between options of the request."""
    ranks, launch, run = request.ranks, request.launch, request.run
    rendezvous, starts_ranks = launch.rendezvous, launch.starts_ranks
    is_per_rank = launch.workdir == "per-rank"
    has_table = ranks.rank_table_file is not None and rendezvous == "rank-table"
    by_hand_only = "only with --rank-table-file and --rendezvous rank-table"
    starter = (request.ranks_start or "--per-node") if launch.per_node else "--rendezvous mpi"
    advice = " (--per-device: it does)" if starter == request.ranks_start else ""
    no_ranks = f"with {starter}, ma_boot does not start a process per device{advice}"
    rules = (
        (
            launch.per_node and rendezvous == "mpi",
            "--per-node: --rendezvous mpi already starts mpirun once per node",
        ),
        (
            rendezvous == "launcher" and not launch.per_node,
            "--rendezvous launcher: only with --per-node, for a command that starts the ranks itself",
        ),
        (launch.per_node and launch.per_device, "--per-node, --per-device: give one of them"),
        (launch.non_sink and rendezvous != "mpi", "MABOOT_NON_SINK: non-sink mode needs --rendezvous mpi"),
        (bool(launch.copy_code) and not is_per_rank, "MABOOT_COPY_CODE: only with --workdir per-rank"),
        (ranks.by_hand and not has_table, f"--rank-size, --rank-start, --device-start: {by_hand_only}"),
        (ranks.by_hand and bool(ranks.devices), "--devices: --device-start already selects the devices"),
        (
            ranks.rank_order == "server" and rendezvous != "rank-table",
            f"MABOOT_RANK_ORDER=server: with --rendezvous {rendezvous}, ranks follow the order of the nodes",
        ),
        (launch.bind_cores != "none" and not starts_ranks, f"--bind-cores: {no_ranks}"),
        (is_per_rank and not starts_ranks, f"--workdir per-rank: {no_ranks}"),
        (launch.device_id == "physical" and not starts_ranks, f"MABOOT_DEVICE_ID=physical: {no_ranks}"),
        (bool(ranks.devices) and rendezvous == "mpi", f"--devices: {no_ranks}"),
        (
            run.hang_action == "stop" and run.hang_timeout is None,
            "--hang-action stop: only with --hang-timeout, e.g. --hang-timeout 1800",
        ),
        (
            run.metrics == 0 and bool(run.metric or run.metrics_port),
            "--metric, --metrics-port: --metrics off takes no samples",
        ),
    )
    return [text for is_broken, text in rules if is_broken]


def check_platform(request: BootRequest, environ: Mapping[str, str]) -> None:
    """Raises `ConfigError` if a job with a rank table is started where no platform will write one."""
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
                "platform (docs/platforms.md) is set, and no rank table will be written; you may want"
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
