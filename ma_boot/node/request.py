"""What the user asked of a node: the options of `ma_boot run` as a value, and back to a command line."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Dict, List, Mapping, Sequence, Tuple, get_type_hints

from ma_boot.launch import LaunchOptions
from ma_boot.node.environment_phase import EnvironmentOptions
from ma_boot.node.mapping import TransferOptions
from ma_boot.node.rank_table_phase import RankOptions
from ma_boot.node.run_phase import RunOptions


@dataclass(frozen=True)
class BootRequest:
    """The training command, and the options of each phase: only `boot` and the rehearsal see all of them."""

    command: Tuple[str, ...]
    preflight: bool
    environment: EnvironmentOptions
    ranks: RankOptions
    transfers: TransferOptions
    launch: LaunchOptions
    run: RunOptions


# The fields of a group are the options of the same names: a new option is one new field.
_GROUPS: Dict[str, Any] = {
    name: kind for name, kind in get_type_hints(BootRequest).items() if is_dataclass(kind)
}


def requested(command: Sequence[str], options: Mapping[str, Any]) -> BootRequest:
    """The request that a command line makes, with the defaults that depend on other options.

    A command that starts the processes itself also finds the other nodes itself; ranks that are given by
    hand run in directories of their own, as in X2MindSpore's script.
    """
    groups = {
        name: group(**{field.name: options[field.name] for field in fields(group)})
        for name, group in _GROUPS.items()
    }
    launch: LaunchOptions = groups["launch"]
    rendezvous = launch.rendezvous or ("none" if launch.per_node else "rank-table")
    workdir = launch.workdir or ("per-rank" if groups["ranks"].by_hand else "shared")
    groups["launch"] = replace(launch, rendezvous=rendezvous, workdir=workdir)
    words = ("-m", *command) if options["as_module"] else tuple(command)
    return BootRequest(words, options["preflight"], **groups)


def as_options(request: BootRequest) -> Tuple[str, ...]:
    """The arguments of `ma_boot run` that make this request: how another process is asked to boot."""
    values: Dict[str, Any] = {"preflight": request.preflight}
    for group in _GROUPS:
        values.update(vars(getattr(request, group)))
    words: List[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if name == "devices":
            words += [option, ",".join(map(str, value))] if value else []
        elif isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, tuple):
            words += [word for each in value for word in (option, each)]
        elif value is not None:
            words += [option, str(value)]
    return (*words, "--", *request.command)


def conflicts(request: BootRequest) -> List[str]:
    """The options of a request that contradict each other: a line for each contradiction."""
    ranks, launch = request.ranks, request.launch
    by, one = launch.rendezvous, "--per-node" if launch.per_node else "--rendezvous mpi"
    own_directory, each_device = launch.workdir == "per-rank", launch.starts_ranks
    has_table = ranks.rank_table_file is not None and by == "rank-table"
    by_hand_only = "only with --rank-table-file and --rendezvous rank-table"
    not_ours = f"with {one}, ma_boot does not start a process per device"
    rules = (
        (launch.per_node and by == "mpi", "--per-node: --rendezvous mpi already starts mpirun once per node"),
        (launch.non_sink and by != "mpi", "--non-sink: MindSpore's non-sink mode needs --rendezvous mpi"),
        (bool(launch.copy_code) and not own_directory, "--copy-code: only with --workdir per-rank"),
        (ranks.by_hand and not has_table, f"--rank-size, --rank-start, --device-start: {by_hand_only}"),
        (ranks.by_hand and bool(ranks.devices), "--devices: --device-start already selects the devices"),
        (
            ranks.rank_order == "server" and by != "rank-table",
            f"--rank-order server: with --rendezvous {by}, ranks follow the order of the nodes",
        ),
        (launch.bind_cores != "none" and not each_device, f"--bind-cores: {not_ours}"),
        (own_directory and not each_device, f"--workdir per-rank: {not_ours}"),
        (launch.device_id == "physical" and not each_device, f"--device-id physical: {not_ours}"),
        (bool(ranks.devices) and by == "mpi", f"--devices: {not_ours}"),
    )
    return [text for broken, text in rules if broken]
