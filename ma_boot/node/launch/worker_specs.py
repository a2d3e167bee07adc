"""Makes the launch plan: the processes of a node, with common variables and those of their rendezvous."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from ma_boot.errors import ConfigError
from ma_boot.node.environment.patch import applied
from ma_boot.node.launch.launch_plan import LaunchPlan, Node, WorkerSpec
from ma_boot.node.launch.node_variables import (
    expand_words,
    launcher_variables,
    place_variables,
    torchrun_defaults,
)
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.platform.modelarts.job import JobEnvironment

Variables = dict[str, Optional[str]]
# Seconds, as in ModelArts' launcher; the start of all nodes can take longer than HCCL's default of 120.
CONNECT_TIMEOUT = "1800"
# torch_npu and MindSpore would use a rank table instead of the rendezvous.
NO_TABLE: Variables = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": None}
# Default ports of torchrun and msrun.
TORCH_PORT = 29500
MINDSPORE_PORT = 8118


def rank_table_of_rank(node: Node, local_rank: int) -> Variables:
    """Returns the variables of one rank; the user's timeout of HCCL and process log are kept."""
    rank = str(node.placement.ranks[local_rank])
    log_path = os.path.join(node.job.log_dir, node.job.name, "ascend", "process_log", f"rank_{rank}")
    return {
        "RANK_TABLE_FILE": node.placement.table_file,
        "RANK_ID": rank,
        "RANK_SIZE": str(node.placement.world_size),
        "JOB_ID": node.job.name,
        "HCCL_CONNECT_TIMEOUT": node.environ.get("HCCL_CONNECT_TIMEOUT") or CONNECT_TIMEOUT,
        "ASCEND_PROCESS_LOG_PATH": node.environ.get("ASCEND_PROCESS_LOG_PATH") or log_path,
    }


def rank_table_of_node(node: Node) -> Variables:
    """Returns the variables of a command that starts the ranks itself."""
    return {
        "RANK_TABLE_FILE": node.placement.table_file,
        "RANK_SIZE": str(node.placement.world_size),
        "RANK_ID": None,
        "HCCL_CONNECT_TIMEOUT": node.environ.get("HCCL_CONNECT_TIMEOUT") or CONNECT_TIMEOUT,
    }


def torch_of_rank(node: Node, local_rank: int) -> Variables:
    """Returns the variables of one rank; rank 0 listens on the master's address."""
    return {
        **torch_of_node(node),
        "RANK": str(node.placement.ranks[local_rank]),
        "WORLD_SIZE": str(node.placement.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(len(node.placement.ranks)),
        "GROUP_RANK": str(node.job.group_rank),
    }


def torch_of_node(node: Node) -> Variables:
    """Returns the variables for the master's address, without a rank table, which torch_npu would prefer."""
    address, port = node.master or ("", 0)
    return {"MASTER_ADDR": address, "MASTER_PORT": str(port), **NO_TABLE}


def mindspore_of_rank(node: Node, local_rank: int) -> Variables:
    """Returns the variables of one rank."""
    return {
        **mindspore_of_node(node),
        "MS_ROLE": "MS_WORKER",
        "MS_NODE_ID": str(node.placement.ranks[local_rank]),
    }


def scheduler(node: Node) -> WorkerSpec:
    """Returns the scheduler, which runs the same command but is not a rank."""
    return WorkerSpec(
        label="scheduler",
        argv=node.command.words,
        cwd=node.cwd,
        environ=applied(node.environ, {**mindspore_of_node(node), "MS_ROLE": "MS_SCHED"}),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-scheduler.txt"),
    )


def mindspore_of_node(node: Node) -> Variables:
    """Returns the variables of the cluster, without a rank table, which MindSpore would prefer."""
    address, port = node.master or ("", 0)
    return {
        "MS_WORKER_NUM": str(node.placement.world_size),
        "MS_SCHED_HOST": address,
        "MS_SCHED_PORT": str(port),
        **NO_TABLE,
    }


def mpirun(node: Node, more: Variables) -> WorkerSpec:
    """Returns `mpirun`, without the variables of a rank table, which MPI's ranks could contradict.

    The number of slots is given, since Open MPI would count cores; ranks are not bound to cores, and their
    output is tagged (`[1,3]<stdout>: ...`). Raises `ConfigError` for a job of several nodes.
    """
    if node.job.node_count > 1:
        raise ConfigError(
            f"--rendezvous mpi is for jobs of one node, this one has {node.job.node_count}: mpirun would "
            "need an sshd on every node, which ModelArts does not start; use another --rendezvous"
        )
    count = str(len(node.placement.ranks))
    # Open MPI refuses to run as root otherwise.
    root = ("--allow-run-as-root",) if node.is_root else ()
    options = ("--bind-to", "none", "--tag-output", "--host", f"localhost:{count}", "-n", count)
    patch = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": str(node.placement.world_size), **more}
    return WorkerSpec(
        label="mpirun",
        argv=("mpirun", *root, *options, *node.command.words),
        cwd=node.cwd,
        environ=applied(node.environ, patch),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-mpirun.txt"),
    )


# Variables of a rank, and of a command that starts the ranks itself, by the value of --rendezvous.
OF_RANK: dict[str, Callable[[Node, int], Variables]] = {
    "rank-table": rank_table_of_rank,
    "mindspore": mindspore_of_rank,
    "torch": torch_of_rank,
    "none": lambda node, local_rank: dict(NO_TABLE),
}
OF_NODE: dict[str, Callable[[Node], Variables]] = {
    "rank-table": rank_table_of_node,
    "mindspore": mindspore_of_node,
    "torch": torch_of_node,
    "launcher": lambda node: dict(NO_TABLE),
    "none": lambda node: dict(NO_TABLE),
}


# ModelArts' diagnostic modes: names and values are those of its launcher (davincirun, `fmk.py`).
_FAULTS = {
    "PRINT_MODEL": "1",
    "DUMP_GE_GRAPH": "2",
    "DUMP_GRAPH_LEVEL": "2",
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
}
# First version of MindSpore with a running data recorder (MS_RDR_ENABLE).
_SINCE_MINDSPORE = (1, 4)
# For a training without data sinking, by MindSpore 1.7's guide.
NON_SINK: Variables = {"GRAPH_OP_RUN": "1", "HCCL_WHITELIST_DISABLE": "1"}


def plan_launch(node: Node, options: LaunchOptions) -> LaunchPlan:
    """Plans a process per rank and MindSpore's scheduler, or `mpirun`, or the command once.

    Log files have the platform's names, which other tools parse. Raises `ConfigError` if the node has no
    device, or the options do not suit the job.
    """
    job, placement = node.job, node.placement
    # MindCluster may run the scheduler in a pod of its own: then all pods with ranks are workers.
    has_scheduler = "MS_ROLE" in job.node_variables and node.environ.get("MS_ROLE") == "MS_WORKER"
    if not placement.ranks:
        raise ConfigError(f"node {job.node_rank} has no device in the rank table: nothing to start")
    if options.rendezvous not in ("launcher", "none"):
        # The training would take these variables of the node for those of a rank. A script that starts the
        # ranks may read them as what they are: torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK.
        node = node._replace(environ=applied(node.environ, dict.fromkeys(job.node_variables)))
    common = _common_variables(node, options, placement.ranks[0])
    workers: list[WorkerSpec]
    # Either ma_boot starts each rank, or one process that starts them.
    if options.per_node:
        workers = [_command(node, options.rendezvous, common)]
    elif options.rendezvous == "mpi":
        workers = [mpirun(node, common)]
    else:
        workers = [_rank(node, options, local_rank) for local_rank in range(len(placement.ranks))]
    # Ports on which processes of this node will listen; they are checked before the start.
    ports: list[int] = []
    is_first = job.node_rank == job.master_index and not has_scheduler
    if not options.per_node and options.rendezvous == "mindspore" and is_first:
        workers.insert(0, scheduler(node))
        ports += [node.master[1]] if node.master else []
    elif not options.per_node and options.rendezvous == "torch" and 0 in placement.ranks:
        ports += [node.master[1]] if node.master else []
    code = node.command.code
    return LaunchPlan(job.node_rank, placement.world_size, tuple(workers), tuple(ports), code=code)


def _common_variables(node: Node, options: LaunchOptions, rank: int) -> Variables:
    """Returns the variables of every process with any rendezvous; `rank` is the first one of the process."""
    return {
        "MABOOT_FAILURE_FILE": node.job.failure_file,
        **diagnostic_variables(node.job, node.environ, rank),
        **(NON_SINK if options.non_sink else {}),
    }


def diagnostic_variables(job: JobEnvironment, environ: Mapping[str, str], rank: int) -> Variables:
    """Returns variables of a rank for `MA_DIAG_MODE_ENV` and `MA_RUN_MODE_ENV`, unless they are set."""
    logs = os.path.join(job.log_dir, job.name)
    mindspore_log = os.path.join(logs, "mindspore", "log")
    glog = {"GLOG_log_dir": mindspore_log, "GLOG_logtostderr": "0", "MS_OM_PATH": mindspore_log}
    mode, run_mode = environ.get("MA_DIAG_MODE_ENV"), environ.get("MA_RUN_MODE_ENV")
    wanted: dict[str, str] = {}
    if mode == "faults":
        wanted = {**_FAULTS, "NPU_COLLECT_PATH": os.path.join(logs, "ascend", "npu_collect", f"rank_{rank}")}
        if _mindspore_version(environ.get("MA_ENGINE_VERSION", "")) >= _SINCE_MINDSPORE:
            wanted.update(glog, GLOG_v="1", MS_RDR_ENABLE="1", MS_RDR_PATH=mindspore_log)
    elif mode in ("accuracy", "profile"):
        wanted = {"MS_DIAGNOSTIC_DATA_PATH": os.path.join(logs, "mindspore", "diagnostic_data")}
    elif run_mode == "performance":
        wanted = {**glog, "ASCEND_GLOBAL_LOG_LEVEL": "3", "ASCEND_GLOBAL_EVENT_LEVEL": "0", "GLOG_v": "3"}
    elif run_mode == "normal":
        wanted = {**glog, "GLOG_v": "1"}
    return {name: environ.get(name, value) for name, value in wanted.items()}


def _mindspore_version(engine: str) -> tuple[int, ...]:
    """Returns (1, 7) for `mindspore_1.7.0-cann_5.1.0-...`, () for another engine.

    ModelArts' launcher compares strings, by which 1.10 would be older than 1.4.
    """
    name, _, version = engine.split("-")[0].partition("_")
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if name == "mindspore" and all(part.isdecimal() for part in parts) else ()


def _rank(node: Node, options: LaunchOptions, local_rank: int) -> WorkerSpec:
    rank, device = node.placement.ranks[local_rank], str(node.placement.device(local_rank))
    patch: Variables = {
        "LOCAL_RANK": str(local_rank),
        "DEVICE_ID": _device_id(node, options, local_rank),
        "ASCEND_DEVICE_ID": device,
        **OF_RANK[options.rendezvous](node, local_rank),
        **_common_variables(node, options, rank),
    }
    return WorkerSpec(
        label=f"rank {rank}",
        argv=node.command.words,
        cwd=node.cwd,
        environ=applied(node.environ, patch),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-proc-rank-{rank}-device-{device}.txt"),
        rank=rank,
        local_rank=local_rank,
        starts_ranks=options.per_device,
        leaves_ranks=node.command.is_shell_script,
    )


def _device_id(node: Node, options: LaunchOptions, local_rank: int) -> str:
    """Returns the logical number, as ModelArts' launcher, or the physical one, as MindSpore 1.7's guide."""
    if options.device_id == "logical":
        return str(node.placement.device(local_rank))
    if not node.placement.device_ids:
        raise ConfigError("MABOOT_DEVICE_ID=physical: requires a rank table, and this job has none")
    return str(node.placement.device_ids[local_rank])


def _command(node: Node, rendezvous: str, common: Variables) -> WorkerSpec:
    """Returns the process of a command that starts the ranks itself.

    Its arguments may contain `$MABOOT_...`, `$MA_JOB_DIR` and the variables of the rendezvous, which no shell
    would expand. A script may leave ranks in the background, a launcher waits for them.
    """
    place, of_node = place_variables(node), OF_NODE[rendezvous](node)
    if rendezvous != "none":
        of_node.update(launcher_variables(node, place))
    named = {name: value for name, value in of_node.items() if value is not None}
    own = {**place, "MA_JOB_DIR": node.job.job_dir}
    patch: Variables = {
        **of_node,
        **common,
        **place,
        **torchrun_defaults(node.environ, place, node.command.words),
    }
    return WorkerSpec(
        label="command",
        argv=expand_words(_with_relative_script(node), {**named, **own}, own),
        cwd=node.cwd,
        environ=applied(node.environ, patch),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-node-{node.job.node_rank}.txt"),
        starts_ranks=True,
        leaves_ranks=node.command.launcher is None,
        starts_ray=node.command.starts_ray,
    )


def _with_relative_script(node: Node) -> Sequence[str]:
    """Returns the command with a relative script: scripts of the guides `cd ./$(dirname $0)`."""
    script, below = node.command.script, os.path.join(node.cwd, "")
    if script is None or not script.name.startswith(below) or not script.name.endswith(".sh"):
        return node.command.words
    return node.command.with_script(script.name[len(below) :]).words


def with_cores(plan: LaunchPlan, cores: Sequence[tuple[int, ...]]) -> LaunchPlan:
    """Returns the plan with each rank bound to its cores, by local rank."""
    workers = (
        worker if worker.local_rank is None else worker._replace(cores=cores[worker.local_rank])
        for worker in plan.workers
    )
    return plan._replace(workers=tuple(workers))


def with_tee(plan: LaunchPlan, tee: str) -> LaunchPlan:
    """Returns the plan with `shown` set by `tee`: `all`, `first` (of the node), `none`, or ranks (`0,3`).

    The scheduler is shown with the first rank.
    """
    named = set(map(int, tee.split(","))) if tee[:1].isdigit() else set()

    def shown(worker: WorkerSpec) -> bool:
        return tee == "all" or (tee == "first" and not worker.local_rank) or worker.rank in named

    return plan._replace(workers=tuple(worker._replace(shown=shown(worker)) for worker in plan.workers))


def with_rank_dirs(plan: LaunchPlan, log_inside: bool, copied: Sequence[tuple[str, str]]) -> LaunchPlan:
    """Returns the plan with a directory `device_<rank>` for each rank.

    If `log_inside`, the rank's log is `train<rank>.log` in this directory. `copied` are files of the code and
    their paths in the directory: a command that names one of them runs the copy, like `cd device_0 && python
    train.py`.
    """
    places = dict(copied)

    def with_own_directory(worker: WorkerSpec) -> WorkerSpec:
        if worker.rank is None:
            return worker
        own = os.path.join(worker.cwd, f"device_{worker.rank}")
        argv = (os.path.join(own, places[word]) if word in places else word for word in worker.argv)
        log = os.path.join(own, f"train{worker.rank}.log") if log_inside else worker.log_file
        return worker._replace(argv=tuple(argv), cwd=own, log_file=log, fresh_cwd=True)

    return plan._replace(workers=tuple(map(with_own_directory, plan.workers)), copied=tuple(copied))
