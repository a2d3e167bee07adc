"""What ModelArts would show each node of a job: directories, variables, the rank table. Pure.

Every name and value here follows the platform's documentation (develop-modelarts-0104 and -1416); where a
laptop cannot have the real thing, a docstring says what stands in for it.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping

from ma_boot.rank_table import fake

_OTHER_JOBS = re.compile(
    r"(MA|VC|VK|BATCH|DLS|MABOOT|MS|MASTER|OMPI|PMIX)_|((LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|RANK_AFTER_ACC"
    r"|RANK_TABLE_FILE|RANK_ID|RANK_SIZE|DEVICE_ID|ASCEND_DEVICE_ID|JOB_ID|ROUTE_PLAN)$"
)


@dataclass(frozen=True)
class SimulatedJob:
    """A job on `nodes` machines with `devices_per_node` cards each, in the sandbox directory `root`."""

    uuid: str
    root: str
    nodes: int
    devices_per_node: int

    @property
    def name(self) -> str:
        """The platform's name of the job, as `MA_VJ_NAME` has it."""
        return f"ma-job-{self.uuid}"

    @property
    def log_name(self) -> str:
        """The job as it stands in the names of log files."""
        return f"modelarts-job-{self.uuid}"

    def node_root(self, node: int) -> str:
        """What plays the root directory of a node's container."""
        return os.path.join(self.root, f"node-{node}")

    def home(self, node: int) -> str:
        """`/home/ma-user`, where the boot command starts."""
        return os.path.join(self.node_root(node), "home", "ma-user")

    def job_dir(self, node: int) -> str:
        """`MA_JOB_DIR`: each code directory has its own name in it."""
        return os.path.join(self.home(node), "modelarts", "user-job-dir")

    def log_dir(self, node: int) -> str:
        """`MA_LOG_DIR`."""
        return os.path.join(self.home(node), "modelarts", "log")

    def table_dir(self, node: int) -> str:
        """`/user/config`."""
        return os.path.join(self.node_root(node), "user", "config")

    @property
    def events_file(self) -> str:
        """The events of the rehearsal itself, beside those of its nodes."""
        return os.path.join(self.root, "log", f"{self.log_name}-events.jsonl")

    @property
    def page_file(self) -> str:
        """The picture of the whole job."""
        return os.path.join(self.root, f"{self.log_name}-report.html")

    def directories(self, node: int) -> Dict[str, str]:
        """The directories that exist when the boot command starts, by their place on the platform."""
        modelarts = os.path.join(self.home(node), "modelarts")
        return {
            "/home/ma-user/modelarts/user-job-dir": self.job_dir(node),
            "/home/ma-user/modelarts/inputs": os.path.join(modelarts, "inputs"),
            "/home/ma-user/modelarts/outputs": os.path.join(modelarts, "outputs"),
            "/home/ma-user/modelarts/log": self.log_dir(node),
            "/user/config": self.table_dir(node),
            "/cache": os.path.join(self.node_root(node), "cache"),
        }

    def address(self, node: int) -> str:
        """The node's address: one of its own in 127.0.0.0/8, which Linux routes to itself without DNS."""
        high, low = divmod(node + 1, 250)
        return f"127.0.{high}.{low}"

    def host(self, node: int) -> str:
        """The node in `VC_WORKER_HOSTS`: its address; the platform has names, which only its DNS knows."""
        return self.address(node)


def node_environment(
    job: SimulatedJob, node: int, code_name: str, outside: Mapping[str, str]
) -> Dict[str, str]:
    """The variables of a node's container; `outside` is this machine's environment, short of other jobs'.

    The pod's name begins with `ma-job-` in the table and with `modelarts-job-` in the variable, as the
    platform's do.
    """
    environ = {name: value for name, value in outside.items() if not _OTHER_JOBS.match(name)}
    modelarts = os.path.join(job.home(node), "modelarts")
    environ.update(
        HOME=job.home(node),
        MA_HOME=job.home(node),
        MA_JOB_DIR=job.job_dir(node),
        MA_MOUNT_PATH=modelarts,
        MA_LOG_DIR=job.log_dir(node),
        MA_SCRIPT_INTERPRETER="",
        WORKSPACE=os.path.join(job.job_dir(node), code_name),
        MA_VJ_NAME=job.name,
        MA_TASK_NAME="worker",
        MA_NUM_HOSTS=str(job.nodes),
        MA_NUM_GPUS=str(job.devices_per_node),
        MA_CURRENT_IP=job.address(node),
        MA_CURRENT_HOST_IP=job.address(node),
        MA_CURRENT_INSTANCE_NAME=f"{job.log_name}-worker-{node}",
        MA_SCHEDULE_CNT="1",
        MA_PROC_START_CNT="1",
        VC_TASK_INDEX=str(node),
        VC_WORKER_NUM=str(job.nodes),
        VC_WORKER_HOSTS=",".join(job.host(n) for n in range(job.nodes)),
        RANK_TABLE_FILE=job.table_dir(node),
    )
    return environ


def rank_table(job: SimulatedJob) -> Dict[str, Any]:
    """The job's completed table, in template two."""
    return fake(job.nodes, job.devices_per_node, (job.name + "-worker-{}").format, job.address)
