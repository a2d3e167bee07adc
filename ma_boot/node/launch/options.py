"""Options for the start of the processes."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ma_boot.node.option import ValueKind, choice, option, option_group, whole

_start = partial(option, topic="start")


def _parse_ranks(text: str) -> str:
    if text in ("all", "first", "none") or all(part.isdecimal() for part in text.split(",")):
        return text
    raise ValueError(f"found {text!r}, expected all, first, none, or ranks such as 0,3")


@option_group
class LaunchOptions(NamedTuple):
    """Options for the start and the rendezvous of the processes."""

    rendezvous: str = _start(
        "rank-table",
        "How the processes find each other; default: rank-table, or launcher with --per-node.",
        kind=choice("rank-table", "mindspore", "torch", "mpi", "launcher", "none"),
        common=True,
        is_derived=True,
    )
    rendezvous_port: int | None = _start(
        None,
        "Rendezvous port on the first node; default: 8118 for mindspore, else 29500.",
        kind=whole("PORT", 1, 65535),
        variable_only=True,
    )
    per_node: bool = _start(
        False,
        "Start COMMAND once per node, if it starts the processes itself, like torchrun. It gets NNODES, "
        "NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT, RANK_START and RANK_END, unless you set them "
        "or give --rendezvous none. Its arguments may contain these, $MABOOT_NNODES, $MABOOT_NODE_RANK, "
        "$MABOOT_NPROC, $MABOOT_WORLD_SIZE, $MABOOT_MASTER_ADDR and $MABOOT_MASTER_PORT.",
    )
    per_device: bool = _start(
        False, "Start COMMAND once per device, even if it seems to start the processes itself."
    )
    non_sink: bool = _start(
        False,
        "MindSpore's non-sink mode, for mpi: GRAPH_OP_RUN=1, HCCL_WHITELIST_DISABLE=1.",
        variable_only=True,
    )
    workdir: str = _start(
        "shared",
        "Run the processes where ma_boot was started (shared), beside the script (code), or each in a new "
        "device_<rank>, the default with --rank-start and similar options.",
        kind=choice("shared", "code", "per-rank"),
        is_derived=True,
    )
    copy_code: tuple[str, ...] = _start(
        (),
        "Files next to the script to copy into each device_<rank>.",
        kind=ValueKind("GLOB"),
        variable_only=True,
        multiple=True,
    )
    bind_cores: str = _start(
        "none",
        "Bind ranks to cores: equal shares, or those close to the rank's device.",
        kind=choice("none", "equal", "numa"),
    )
    tee: str = option(
        "all",
        "Ranks whose output is shown, not only written to files: all, first, none, or a list such as 0,3.",
        kind=ValueKind("RANKS", _parse_ranks),
        topic="running",
    )
    device_id: str = option(
        "logical",
        "DEVICE_ID: number within the container, or within the server.",
        kind=choice("logical", "physical"),
        topic="ranks",
        variable_only=True,
    )

    @property
    def starts_ranks(self) -> bool:
        """True if ma_boot starts each rank itself; if not, the command or `mpirun` does."""
        return not self.per_node and self.rendezvous != "mpi"

    @property
    def meets_at_address(self) -> bool:
        """True if the ranks of all nodes meet at the first node's address, by a framework's timeout."""
        return self.rendezvous in ("torch", "mindspore", "launcher")
