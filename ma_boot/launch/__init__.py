"""Plans the processes of a node from job, ranks and command: the variables of each rendezvous. Pure."""

from ma_boot.launch.launch_plan import (
    LaunchOptions as LaunchOptions,
    LaunchPlan as LaunchPlan,
    Node as Node,
    Placement as Placement,
    WorkerSpec as WorkerSpec,
    described as described,
    placed_by_count as placed_by_count,
    plan_text as plan_text,
)
from ma_boot.launch.worker_specs import (
    MINDSPORE_PORT as MINDSPORE_PORT,
    TORCH_PORT as TORCH_PORT,
    plan_launch as plan_launch,
    with_cores as with_cores,
    with_rank_dirs as with_rank_dirs,
    with_tee as with_tee,
)
