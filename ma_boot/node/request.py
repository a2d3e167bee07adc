"""What the user asked of a node, as one value; and back to a command line."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ma_boot.launch import Way
from ma_boot.node.run_phase import Restarts
from ma_boot.supervisor import Limits
from path_mapping.stores import STALL_SECONDS


@dataclass(frozen=True)
class BootRequest:
    """What the user asked of this node; times in seconds.

    `rendezvous` and `workdir` are None where the user left them to the other options: see `completed`.
    """

    command: Tuple[str, ...]
    python: Optional[str] = None
    conda_env: Optional[str] = None
    source: Tuple[str, ...] = ()
    requirements: Optional[str] = None
    path_mapping: Optional[str] = None
    obs_root: Optional[str] = None
    product: Optional[str] = None
    rank_order: str = "pod"
    host_nic_ip: Optional[str] = None
    rank_table_file: Optional[str] = None
    rank_size: Optional[int] = None
    rank_start: Optional[int] = None
    device_start: Optional[int] = None
    devices: Tuple[int, ...] = ()
    device_id: str = "logical"
    rendezvous: Optional[str] = None
    rendezvous_port: Optional[int] = None
    per_node: bool = False
    non_sink: bool = False
    workdir: Optional[str] = None
    copy_code: Tuple[str, ...] = ()
    rank_table_timeout: float = 1800.0
    bind_cores: str = "none"
    tee: str = "all"
    stop_timeout: float = 15.0
    upload_timeout: float = 600.0
    stall_timeout: float = STALL_SECONDS
    max_restarts: int = 0
    start_seconds: float = 10.0
    hang_timeout: Optional[float] = None
    hang_action: str = "report"
    preflight: bool = False

    @property
    def way(self) -> Way:
        """How the processes are started."""
        return Way(self.rendezvous or "rank-table", self.per_node, self.device_id, self.non_sink)

    @property
    def by_hand(self) -> bool:
        """The user gives the ranks of this machine, as X2MindSpore's script takes them."""
        return any(given is not None for given in (self.rank_size, self.rank_start, self.device_start))

    @property
    def limits(self) -> Limits:
        """The supervisor's patience."""
        return Limits(self.stop_timeout, hang_timeout=self.hang_timeout, hang_action=self.hang_action)

    @property
    def restarts(self) -> Restarts:
        """How often the processes may be started again."""
        return Restarts(self.max_restarts, self.start_seconds)


def requested(command: Sequence[str], options: Mapping[str, Any]) -> BootRequest:
    """The completed request of a command line."""
    words = ("-m", *command) if options["as_module"] else tuple(command)
    settings = {field.name: options[field.name] for field in fields(BootRequest) if field.name != "command"}
    return completed(BootRequest(words, **settings))


def as_options(request: BootRequest) -> Tuple[str, ...]:
    """The request as a command line of `ma_boot run`: what another process needs to boot by it."""
    options: List[str] = []
    for field in fields(request):
        value = getattr(request, field.name)
        name = "--" + field.name.replace("_", "-")
        if field.name == "devices":
            options += [name, ",".join(map(str, value))] if value else []
        elif isinstance(value, bool):
            options += [name] if value else []
        elif isinstance(value, tuple):
            options += [part for each in value for part in (name, each)] if field.name != "command" else []
        elif value is not None:
            options += [name, str(value)]
    return (*options, "--", *request.command)


def completed(request: BootRequest) -> BootRequest:
    """The request with what its options mean for those that were not given.

    A command that starts the processes itself finds the others itself too; ranks that are given by hand run
    in directories of their own, as X2MindSpore's script has it.
    """
    return replace(
        request,
        rendezvous=request.rendezvous or ("none" if request.per_node else "rank-table"),
        workdir=request.workdir or ("per-rank" if request.by_hand else "shared"),
    )


def conflicts(request: BootRequest) -> List[str]:
    """What does not go together in a completed request."""
    by, one = request.rendezvous, "--per-node" if request.per_node else "--rendezvous mpi"
    for_each_device = not request.per_node and by != "mpi"
    own_directory = request.workdir == "per-rank"
    has_table = request.rank_table_file is not None and by == "rank-table"
    not_ours = f"with {one}, ma_boot does not start the processes of the devices"
    by_hand_only = "only with --rank-table-file and --rendezvous rank-table"
    rules = (
        (
            request.per_node and by == "mpi",
            "--per-node: --rendezvous mpi starts mpirun once on a node already",
        ),
        (request.non_sink and by != "mpi", "--non-sink: MindSpore's non-sink mode needs --rendezvous mpi"),
        (bool(request.copy_code) and not own_directory, "--copy-code: only with --workdir per-rank"),
        (request.by_hand and not has_table, f"--rank-size, --rank-start, --device-start: {by_hand_only}"),
        (request.by_hand and bool(request.devices), "--devices: --device-start says which devices"),
        (
            request.rank_order == "server" and by != "rank-table",
            f"--rank-order server: with --rendezvous {by} ranks follow the nodes",
        ),
        (request.bind_cores != "none" and not for_each_device, f"--bind-cores: {not_ours}"),
        (own_directory and not for_each_device, f"--workdir per-rank: {not_ours}"),
        (request.device_id == "physical" and not for_each_device, f"--device-id physical: {not_ours}"),
        (bool(request.devices) and by == "mpi", f"--devices: {not_ours}"),
    )
    return [text for broken, text in rules if broken]
