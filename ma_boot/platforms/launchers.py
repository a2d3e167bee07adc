"""Launchers that start ma_boot once on each node: Kubeflow's training operator, torchrun, Open MPI.

Their names are also those of a rank (`RANK`, `LOCAL_RANK`), but ma_boot starts the ranks itself: they must
start one process on a node.
"""

from __future__ import annotations

from typing import List, Tuple

from ma_boot.platforms.facts import Around, Facts, add

ENV = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PET = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT")
OF_TORCHRUN = (
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)


def kubeflow(around: Around, problems: List[str]) -> Facts:
    """The training operator's PyTorchJob: `PET_*`, or `RANK` and `WORLD_SIZE` of pods (kubeflow/trainer)."""
    found: Facts = {}
    new = around.given("PET_NNODES") is not None and around.given("PET_NODE_RANK") is not None
    names = ("PET_NODE_RANK", "PET_NNODES") if new else ("RANK", "WORLD_SIZE")
    for what, name in zip(("node", "nodes"), names):
        if around.number(name, problems) is not None:
            add(found, what, around.given(name), problems)
    if (around.environ.get("PET_NPROC_PER_NODE") or "").isdecimal():  # else auto, gpu or cpu
        add(found, "devices", around.given("PET_NPROC_PER_NODE"), problems)
    _meeting(around, found, problems)
    return found


def torchrun(around: Around, problems: List[str]) -> Facts:
    """`torchrun --nproc-per-node 1 ... ma_boot`: a node is one of its groups.

    Its port is in use by its own store.
    """
    _once_per_node(around, "LOCAL_WORLD_SIZE", "torchrun --nproc-per-node 1", problems)
    found: Facts = {}
    for what, name in (("node", "GROUP_RANK"), ("nodes", "WORLD_SIZE")):
        if around.number(name, problems) is not None:
            add(found, what, around.given(name), problems)
    add(found, "master", around.given("MASTER_ADDR"), problems)
    return found


def openmpi(around: Around, problems: List[str]) -> Facts:
    """`mpirun --map-by ppr:1:node ma_boot`: a node is one of its processes."""
    _once_per_node(around, "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:1:node", problems)
    found: Facts = {}
    for what, name in (("node", "OMPI_COMM_WORLD_RANK"), ("nodes", "OMPI_COMM_WORLD_SIZE")):
        if around.number(name, problems) is not None:
            add(found, what, around.given(name), problems)
    _meeting(around, found, problems)
    return found


def of_torch(around: Around) -> Tuple[str, ...]:
    """The variables of Kubeflow and torchrun that mean a rank to the training."""
    return (*ENV, *PET, *OF_TORCHRUN)


def of_openmpi(around: Around) -> Tuple[str, ...]:
    """The variables of Open MPI that mean a rank to the training."""
    return tuple(name for name in around.environ if name.startswith(("OMPI_COMM_WORLD_", "PMIX_")))


def _meeting(around: Around, found: Facts, problems: List[str]) -> None:
    add(found, "master", around.given("MASTER_ADDR", "PET_MASTER_ADDR"), problems)
    for name in ("MASTER_PORT", "PET_MASTER_PORT"):
        if "port" not in found and around.number(name, problems) is not None:
            add(found, "port", around.given(name), problems)


def _once_per_node(around: Around, name: str, remedy: str, problems: List[str]) -> None:
    count = around.number(name, problems)
    if count is not None and count > 1:
        problems.append(
            f"{name} is {count}: ma_boot was started {count} times on this node, and would start all ranks "
            f"as often; start it once per node ({remedy})"
        )
