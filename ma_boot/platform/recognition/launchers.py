"""Launchers that start ma_boot once on each node: Kubeflow's training operator, torchrun, Open MPI, Slurm.

Their variables have the names of a rank (`RANK`, `LOCAL_RANK`), but ma_boot starts the ranks itself, so
they must start one process per node.
"""

from __future__ import annotations

import re

from ma_boot.platform.recognition.place import NodePlace, Surroundings, VariableReader

ENV = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PET = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT")
OF_TORCHRUN = (
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)


def kubeflow_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads a PyTorchJob of the training operator (kubeflow/trainer).

    It sets `PET_*`, or `RANK` and `WORLD_SIZE`, which then count pods.
    """
    reading = VariableReader(around, problems)
    new = reading.value("PET_NNODES") is not None and reading.value("PET_NODE_RANK") is not None
    node, nodes = ("PET_NODE_RANK", "PET_NNODES") if new else ("RANK", "WORLD_SIZE")
    reading.count("node", node)
    reading.count("nodes", nodes)
    # The other values are `auto`, `gpu` and `cpu`.
    if (around.environ.get("PET_NPROC_PER_NODE") or "").isdecimal():
        reading.count("devices", "PET_NPROC_PER_NODE")
    _master(reading)
    return reading.place()


def torchrun_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads `torchrun --nproc-per-node 1 ... ma_boot`: a node is one of its groups.

    MASTER_PORT is left out, as torchrun's own store listens there.
    """
    reading = VariableReader(around, problems)
    _once_per_node(reading, "LOCAL_WORLD_SIZE", "torchrun --nproc-per-node 1")
    reading.count("node", "GROUP_RANK")
    reading.count("nodes", "WORLD_SIZE")
    reading.text("master", "MASTER_ADDR")
    return reading.place()


def openmpi_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads `mpirun --map-by ppr:1:node ma_boot`: a node is one of its processes."""
    reading = VariableReader(around, problems)
    _once_per_node(reading, "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:1:node")
    reading.count("node", "OMPI_COMM_WORLD_RANK")
    reading.count("nodes", "OMPI_COMM_WORLD_SIZE")
    _master(reading)
    return reading.place()


def slurm_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads `srun --ntasks-per-node 1 ma_boot ...`: the step, or else the job (srun's manual)."""
    reading = VariableReader(around, problems)
    reading.text("job", "SLURM_JOB_ID")
    reading.count("node", "SLURM_NODEID")
    reading.count("nodes", "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    reading.put("hosts", expand_hosts(reading.value(*names) or "") or None, reading.name_of(*names) or "")
    local, tasks = reading.number("SLURM_LOCALID"), reading.value("SLURM_STEP_TASKS_PER_NODE") or ""
    if local or set(re.findall(r"(\d+)(?:\(x\d+\))?", tasks)) - {"1"}:
        name = f"SLURM_LOCALID is {local}" if local else f"SLURM_STEP_TASKS_PER_NODE is {tasks}"
        problems.append(
            f"{name}: ma_boot was started several times on this node, and would start all "
            "ranks as often; start it once per node (srun --ntasks-per-node 1)"
        )
    nodes = reading.number("SLURM_NNODES") or 1
    if nodes > 1 and not reading.value("SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"):
        problems.append(
            f"SLURM_NNODES is {nodes}, and there is no SLURM_STEP_NUM_NODES: the batch script runs on the "
            "first node alone; start ma_boot on all of them (srun --ntasks-per-node 1 ma_boot ...)"
        )
    reading.text("master", "MASTER_ADDR")
    reading.count("port", "MASTER_PORT")
    return reading.place()


def check_unknown(around: Surroundings, problems: list[str]) -> None:
    """Adds a problem for variables of an unknown launcher, whose processes would each start rank 0."""
    reading = VariableReader(around, problems)
    several = dict.fromkeys(("WORLD_SIZE", "PMI_SIZE", "PBS_NUM_NODES"), 2)
    for name, least in {**several, "RANK": 1, "PMI_RANK": 1, "PBS_NODENUM": 1}.items():
        text = reading.value(name) or ""
        if text.isdecimal() and int(text) >= least:
            problems.append(
                f"{name} is {text}, but no launcher that ma_boot knows has started it, so each would start "
                "rank 0: set MA_NUM_HOSTS and VC_TASK_INDEX on each node, choose with --platform, or unset it"
            )
            return


def torch_variables(around: Surroundings) -> tuple[str, ...]:
    """Returns the variables of Kubeflow and torchrun that the training takes for those of a rank."""
    return (*ENV, *PET, *OF_TORCHRUN)


def openmpi_variables(around: Surroundings) -> tuple[str, ...]:
    """Returns the variables of Open MPI that the training takes for those of a rank."""
    return tuple(name for name in around.environ if name.startswith(("OMPI_COMM_WORLD_", "PMIX_")))


def _master(reading: VariableReader) -> None:
    reading.text("master", "MASTER_ADDR", "PET_MASTER_ADDR")
    reading.count("port", "MASTER_PORT", "PET_MASTER_PORT")


def _once_per_node(reading: VariableReader, name: str, remedy: str) -> None:
    count = reading.number(name)
    if count is not None and count > 1:
        reading.problems.append(
            f"{name} is {count}: ma_boot was started {count} times on this node, and would start all ranks "
            f"as often; start it once per node ({remedy})"
        )


def expand_hosts(text: str) -> tuple[str, ...]:
    """Expands a list of Slurm's, such as `a[01-03,7],b`, to the names in it."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        heads = [""]
        for plain, inside in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            ends = _numbers(inside) if inside else [plain]
            heads = [head + end for head in heads for end in ends]
        names += heads
    return tuple(names)


def _numbers(text: str) -> list[str]:
    """Expands `01-03,7` to its numbers, with their leading zeros."""
    numbers: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last.isdecimal() and first.isdecimal():
            numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        else:
            numbers.append(part)
    return numbers
