"""The launch plan: what each process gets."""

from __future__ import annotations

import pytest

from ma_boot.errors import ConfigError
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.launch.launch_plan import (
    LaunchPlan,
    Node,
    Placement,
    describe_plan,
    format_plans,
    place_by_count,
)
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.launch.worker_specs import plan_launch
from ma_boot.platform.modelarts.job import read_job

OUTSIDE = {"PATH": "/usr/bin", "MY_TOKEN": "planted", "RANK_TABLE_FILE": "/user/config", "RANK_ID": "9"}
OF_LOCAL_RANK_1 = {
    "PATH": "/usr/bin",
    "MY_TOKEN": "planted",
    "DEVICE_ID": "1",
    "ASCEND_DEVICE_ID": "1",
    "LOCAL_RANK": "1",
    "MABOOT_FAILURE_FILE": "/log/modelarts-job-x-node-1-failure.json",
}


def plan(
    rendezvous: str, index: int = 1, given: dict[str, str] = OUTSIDE, node_variables: tuple[str, ...] = ()
) -> LaunchPlan:
    job = read_job(
        {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": str(index), "MA_VJ_NAME": "ma-job-x", "MA_LOG_DIR": "/log"},
        "host",
    )._replace(node_variables=node_variables)
    placement = Placement(4, (2 * index, 2 * index + 1), "/table.json")
    node = Node(job, placement, TrainingCommand(("python", "t.py")), "/home", given, ("10.0.0.1", 8118))
    return plan_launch(node, LaunchOptions(rendezvous))


def test_a_rank_has_the_variables_of_the_rank_table() -> None:
    worker = plan("rank-table").workers[1]
    assert worker.environ == {
        **OF_LOCAL_RANK_1,
        "RANK_TABLE_FILE": "/table.json",
        "RANK_ID": "3",
        "RANK_SIZE": "4",
        "JOB_ID": "modelarts-job-x",
        "HCCL_CONNECT_TIMEOUT": "1800",
        "ASCEND_PROCESS_LOG_PATH": "/log/modelarts-job-x/ascend/process_log/rank_3",
    }
    assert (worker.label, worker.rank, worker.local_rank, worker.cwd) == ("rank 3", 3, 1, "/home")
    assert worker.log_file == "/log/modelarts-job-x-proc-rank-3-device-1.txt"


def test_a_rank_has_the_variables_of_mindspores_cluster() -> None:
    worker = plan("mindspore").workers[1]
    assert worker.environ == {
        **OF_LOCAL_RANK_1,
        "MS_ROLE": "MS_WORKER",
        "MS_WORKER_NUM": "4",
        "MS_NODE_ID": "3",
        "MS_SCHED_HOST": "10.0.0.1",
        "MS_SCHED_PORT": "8118",
    }


def test_the_scheduler_is_on_node_0_only_and_is_no_rank() -> None:
    assert [worker.label for worker in plan("mindspore", index=1).workers] == ["rank 2", "rank 3"]
    scheduler, *ranks = plan("mindspore", index=0).workers
    assert (scheduler.label, scheduler.rank, scheduler.environ["MS_ROLE"]) == ("scheduler", None, "MS_SCHED")
    assert "MS_NODE_ID" not in scheduler.environ
    assert scheduler.argv == ranks[0].argv


def test_beside_a_pod_of_the_scheduler_no_node_starts_a_second_one() -> None:
    labels = {}
    for role in ("MS_WORKER", "MS_SCHED"):
        own = plan("mindspore", index=0, node_variables=("MS_ROLE",), given={"MS_ROLE": role})
        labels[role] = [worker.label for worker in own.workers]
    assert labels["MS_WORKER"] == ["rank 0", "rank 1"]
    assert labels["MS_SCHED"] == ["scheduler", "rank 0", "rank 1"]


@pytest.mark.invariant("The user's settings for HCCL are kept")
def test_the_users_variables_of_hccl_are_kept() -> None:
    given = {"HCCL_CONNECT_TIMEOUT": "7200", "ASCEND_PROCESS_LOG_PATH": "/mine"}
    worker = plan("rank-table", given=given).workers[0]
    assert {name: worker.environ[name] for name in given} == given


@pytest.mark.parametrize(
    ("variables", "world_size", "ranks"),
    [
        ({}, 1, (0,)),
        ({"MA_NUM_GPUS": "8"}, 8, tuple(range(8))),
        ({"MA_NUM_HOSTS": "3", "VC_TASK_INDEX": "2", "MA_NUM_GPUS": "2"}, 6, (4, 5)),
        ({"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "1"}, 2, (1,)),
    ],
)
def test_ranks_are_counted_without_a_table(
    variables: dict[str, str], world_size: int, ranks: tuple[int, ...]
) -> None:
    assert place_by_count(read_job(variables, "host")) == Placement(world_size, ranks, None)


def test_a_node_without_a_device_starts_nothing() -> None:
    job = read_job({}, "host")
    with pytest.raises(ConfigError, match="no device"):
        plan_launch(Node(job, Placement(4, (), None), TrainingCommand(("x",)), "/", {}), LaunchOptions())


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
def test_the_plan_is_shown_as_differences_with_secrets_masked() -> None:
    given = {**OUTSIDE, "NEW_SECRET": "planted"}
    description = describe_plan(plan("mindspore", given=given), {"PATH": "/bin", "RANK_ID": "9"})
    environment = description["workers"][0]["environment"]
    assert environment["RANK_ID"] is None
    assert environment["PATH"] == "/usr/bin"
    assert environment["NEW_SECRET"] == "******"
    text = format_plans([description])
    assert "    - RANK_ID\n" in text
    assert "    + MS_NODE_ID=2\n" in text
    assert "planted" not in text
