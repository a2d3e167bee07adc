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
    place_by_count,
)
from ma_boot.node.launch.node_variables import explain_unexpanded
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.launch.plan_text import format_plans
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


def node_of(index: int = 1, given: dict[str, str] = OUTSIDE, node_variables: tuple[str, ...] = ()) -> Node:
    job = read_job(
        {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": str(index), "MA_VJ_NAME": "ma-job-x", "MA_LOG_DIR": "/log"},
        "host",
    )._replace(node_variables=node_variables)
    placement = Placement(4, (2 * index, 2 * index + 1), "/table.json")
    return Node(job, placement, TrainingCommand(("python", "t.py")), "/home", given, ("10.0.0.1", 8118))


def plan(
    rendezvous: str, index: int = 1, given: dict[str, str] = OUTSIDE, node_variables: tuple[str, ...] = ()
) -> LaunchPlan:
    return plan_launch(node_of(index, given, node_variables), LaunchOptions(rendezvous))


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


@pytest.mark.parametrize("rendezvous", ["rank-table", "mindspore", "torch", "launcher", "none"])
def test_a_command_per_node_has_the_names_that_launchers_read(rendezvous: str) -> None:
    options = LaunchOptions(rendezvous, per_node=True)
    (command,) = plan_launch(
        node_of(given={"WORLD_SIZE": "2", "RANK_START": "", "MASTER_ADDR": "mine"}), options
    ).workers
    names = ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT", "RANK_START", "RANK_END")
    expected: list[str | None] = ["2", "1", "2", "mine", "8118", "2", "4"]
    if rendezvous == "none":
        expected = [None, None, None, "mine", None, "", None]
    assert [command.environ.get(name) for name in names] == expected
    assert command.environ["WORLD_SIZE"] == "2"
    assert (command.starts_ranks, command.starts_ray) == (True, False)


def test_variables_of_the_platform_are_not_taken_for_the_users() -> None:
    """A torchrun that started ma_boot listens at its MASTER_PORT."""
    of_platform = {"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "2222", "RANK": "1"}
    node = node_of(given=of_platform, node_variables=tuple(of_platform))
    (command,) = plan_launch(node, LaunchOptions("launcher", per_node=True)).workers
    assert (command.environ["MASTER_ADDR"], command.environ["MASTER_PORT"]) == ("10.0.0.1", "8118")
    assert command.environ["RANK"] == "1", "scripts may read it as the number of the node"


def test_names_are_expanded_in_arguments_but_not_in_the_code_of_a_shell() -> None:
    code = "NNODES=1; echo $NNODES $MABOOT_NNODES $MA_JOB_DIR"
    words = ("bash", "-c", code, "$RANK_START", "${RANK_END}", "$NNODES-$WORLD_SIZE-$OTHER")
    node = node_of()._replace(command=TrainingCommand(words))
    (command,) = plan_launch(node, LaunchOptions("launcher", per_node=True)).workers
    expanded = f"NNODES=1; echo $NNODES 2 {node.job.job_dir}"
    assert command.argv == ("bash", "-c", expanded, "2", "4", "2-$WORLD_SIZE-$OTHER")


def test_a_command_with_ray_is_marked() -> None:
    node = node_of()._replace(command=TrainingCommand(("bash", "run.sh"), starts_ray=True))
    (command,) = plan_launch(node, LaunchOptions("launcher", per_node=True)).workers
    assert command.starts_ray


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("train.py --node $VC_TASK_INDEX", """bash -c 'python3 train.py --node "$VC_TASK_INDEX"'"""),
        ("/job/code/run.sh ${MA_NUM_HOSTS}", """bash -c '"$MA_JOB_DIR/code/run.sh" "${MA_NUM_HOSTS}"'"""),
        (
            "./train --password=planted $VC_TASK_INDEX",
            """bash -c './train "--password=******" "$VC_TASK_INDEX"'""",
        ),
        ("./train ${VC_WORKER_HOSTS%%,*}`", """bash -c './train "${VC_WORKER_HOSTS%%,*}\\`"'"""),
    ],
)
def test_variables_that_nothing_expands_are_explained(typed: str, remedy: str) -> None:
    warning = explain_unexpanded(typed.split(), typed.split(), "/job")
    assert warning is not None
    assert warning.endswith(f"; write: {remedy}")


@pytest.mark.parametrize(
    "line", ["train.py $HOME $MABOOT $VC_ MA_X", "bash -c $VC_TASK_INDEX $VC_TASK_INDEX"]
)
def test_other_words_are_no_variables_that_nothing_expands(line: str) -> None:
    assert explain_unexpanded(line.split(), line.split(), "/job") is None


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
    assert "    - RANK_ID" in text
    assert "    + MS_NODE_ID={2-3}\n" in text
    assert "planted" not in text


def test_processes_that_differ_in_numbers_alone_are_shown_once() -> None:
    def worker(node: int, label: str, **environment: str | None) -> dict[str, object]:
        log = f"/node-{node}/{label}.txt"
        return {
            "label": label,
            "argv": ["python", "train.py"],
            "cwd": "/",
            "log_file": log,
            "shown": True,
            "cores": [],
            "environment": {"OLD": None, "SAME": "8", "OLDER": None, **environment},
        }

    def ranks(node: int) -> list[dict[str, object]]:
        numbers = range(node * 8, node * 8 + 8)
        return [worker(node, f"rank {rank}", RANK=str(rank), LOCAL=str(rank % 8)) for rank in numbers]

    nodes = [{"node": node, "world_size": 16, "workers": ranks(node)} for node in range(2)]
    folded = [
        "  ranks 0-15, nodes 0-1",
        "    argv  python train.py",
        "    cwd   /",
        "    log   /node-{0-1}/rank {0-15}.txt",
        "    + SAME=8",
        "    + RANK={0-15}",
        "    + LOCAL={0-7}",
        "    - OLD, OLDER",
    ]
    assert format_plans(nodes).splitlines() == ["nodes 0-1: 8 processes each, world size 16", *folded]
    nodes[0]["workers"] = [worker(0, "scheduler"), *ranks(0)]
    text = format_plans(nodes).splitlines()
    assert text[:3] == [
        "node 0: 9 processes, world size 16",
        "node 1: 8 processes, world size 16",
        "  scheduler, node 0",
    ]
    assert text[-len(folded) :] == folded
    differs = [*ranks(0)[:2], worker(0, "rank 2", RANK="2", LOCAL="none")]
    text = format_plans([{"node": 0, "world_size": 3, "workers": differs}]).splitlines()
    assert [line for line in text if line.startswith("  rank")] == ["  ranks 0-1", "  rank 2"]
