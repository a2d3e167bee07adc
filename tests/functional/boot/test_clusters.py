"""`ma_boot` in pods of other clusters than ModelArts: their variables, their tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.functional.boot.volcano_pod import RANKS, VolcanoPod, table
from tests.unit.rank_table.writers import packed

TOKEN = "9f1c0a2e55d04c7fa3c1"
TWO = {"VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "127.0.0.1,127.0.0.2"}


def ranks(plan: dict[str, Any]) -> list[int]:
    return [worker["rank"] for worker in plan["workers"]]


@pytest.fixture
def pod(tmp_path: Path) -> VolcanoPod:
    return VolcanoPod(tmp_path, index=1, variables=dict(TWO))


def test_each_pod_of_a_job_is_a_node_of_its_own_without_modelarts_variables(pod: VolcanoPod) -> None:
    pod.table.write_text(json.dumps(table(0, 1)))
    plan = pod.plan()
    assert (plan["node"], plan["world_size"], ranks(plan)) == (1, 4, [2, 3])
    pod.index = 0
    assert ranks(pod.plan()) == [0, 1]


def test_pod_without_an_identity_does_not_start_as_node_0(pod: VolcanoPod) -> None:
    pod.variables = dict.fromkeys(TWO, "")
    pod.table.write_text(json.dumps(table(0, 1)))
    ended = pod.boot(*RANKS)
    assert ended.code == 78
    assert "the rank table has 2 servers, and no variable identifies this node" in ended.output
    assert "server 10.0.0.2, 2 devices" in ended.output


@pytest.mark.parametrize("more", [{"MA_NUM_HOSTS": "2"}, {}], ids=["told", "vcjob"])
def test_table_with_too_many_servers_belongs_to_another_job(pod: VolcanoPod, more: dict[str, str]) -> None:
    """Only a HyperJob has more nodes than Volcano's variables, and its table has super pods."""
    pod.variables.update(more, MA_CURRENT_HOST_IP="10.0.0.2")
    pod.table.write_text(json.dumps(table(0, 1, 2)))
    ended = pod.boot("--rank-table-timeout", "0.2", *RANKS)
    assert ended.code == 75
    assert "completed, but with 3 servers where the job has 2 nodes" in ended.output


def of_children(document: dict[str, Any], *sizes: int) -> dict[str, Any]:
    """The table of a HyperJob with children of so many pods."""
    names, children = iter(document["server_list"]), []
    for number, size in enumerate(sizes):
        own = [{"server_id": next(names)["server_id"]} for _ in range(size)]
        children.append({"super_pod_id": f"child-{number}", "server_list": own})
    return {**document, "super_pod_list": children}


def test_child_of_a_hyperjob_finds_its_node_in_the_table_by_address(pod: VolcanoPod) -> None:
    """Volcano's variables have the two pods of one child; the table has those of all children."""
    pod.variables["MA_CURRENT_HOST_IP"] = "10.0.0.4"
    pod.table.write_text(json.dumps(of_children(table(2, 3, 0, 1), 2, 2)))
    plan = pod.plan()
    assert (plan["node"], plan["world_size"], ranks(plan)) == (3, 8, [6, 7])


@pytest.mark.parametrize(("pods", "token"), [(1, ""), (1, TOKEN), (2, TOKEN)])
def test_a_child_of_a_hyperjob_does_not_restart_without_the_other_children(
    pod: VolcanoPod, pods: int, token: str
) -> None:
    """Only the rank table shows that the job has more nodes than Volcano's variables."""
    hosts = ",".join(["127.0.0.1", "127.0.0.2"][:pods])
    pod.index = 0
    pod.variables = {"VC_WORKER_NUM": str(pods), "VC_WORKER_HOSTS": hosts, "MA_CURRENT_HOST_IP": "10.0.0.1"}
    pod.variables.update(MABOOT_JOB_TOKEN=token, MABOOT_START_SECONDS="0")
    pod.table.write_text(json.dumps(of_children(table(*range(2 * pods)), pods, pods)))
    ended = pod.boot("--max-restarts", "1", "python", "-c", "raise SystemExit(7)")
    assert ended.code == 7, ended.output
    assert "no restart: there is no connection to the other nodes" in ended.output
    given_up = f"this node continues without its peers: the rank table has {2 * pods} nodes" in ended.output
    assert given_up == (pods == 2), "a single pod has opened no way"


def test_ranks_stay_with_their_servers_in_a_reordered_table(pod: VolcanoPod) -> None:
    pod.table.write_text(json.dumps(table(1, 0)))
    assert ranks(pod.plan()) == [0, 1]


def test_a_packed_table_is_unpacked_for_the_ranks(pod: VolcanoPod) -> None:
    pod.table.write_bytes(packed(json.dumps(table(0, 1, version="1.3")).encode()))
    ended = pod.boot(*RANKS)
    assert ended.code == 0, ended.output
    assert "[rank 2] 2 of 4" in ended.output
    written = json.loads((pod.home / "rank_table" / "jobstart_hccl.json").read_text())
    assert written == table(0, 1)


@pytest.mark.parametrize("content", ["packed", "1.3"])
def test_table_of_the_user_is_rewritten_only_if_hccl_cannot_read_it(pod: VolcanoPod, content: str) -> None:
    file = pod.root / "hccl.json"
    text = json.dumps(table(0, 1, version="1.3" if content == "1.3" else "1.0")).encode()
    file.write_bytes(packed(text) if content == "packed" else text)
    plan = pod.plan("--rank-table-file", str(file))
    written = pod.home / "rank_table" / "jobstart_hccl.json"
    assert plan["workers"][0]["environment"]["RANK_TABLE_FILE"] == str(written)
    file.write_text(json.dumps(table(0, 1)))
    plan = pod.plan("--rank-table-file", str(file))
    assert plan["workers"][0]["environment"]["RANK_TABLE_FILE"] == str(file)


def test_plan_does_not_wait_for_the_name_server(pod: VolcanoPod) -> None:
    pod.variables["VC_WORKER_HOSTS"] = "nowhere.invalid,127.0.0.2"
    pod.table.write_text(json.dumps(table(0, 1)))
    worker = pod.plan("--rendezvous", "torch")["workers"][0]
    assert worker["environment"]["MASTER_ADDR"] == "nowhere.invalid"


@pytest.mark.parametrize("host", ["train..job", f"{'x' * 64}.job"])
def test_invalid_host_name_is_a_configuration_error(pod: VolcanoPod, host: str) -> None:
    pod.variables["VC_WORKER_HOSTS"] = f"{host},127.0.0.2"
    pod.table.write_text(json.dumps(table(0, 1)))
    ended = pod.boot("--rendezvous", "torch", *RANKS)
    assert ended.code == 78, ended.output
    assert "is no name for DNS" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("address", ["::1", "fe80::1%lo"])
def test_master_may_have_an_ipv6_address(pod: VolcanoPod, address: str) -> None:
    pod.variables.update(MASTER_ADDR=f"[{address}]", VC_WORKER_HOSTS=f"{address},::1")
    pod.table.write_text(json.dumps(table(0, 1)))
    plan = pod.plan("--rendezvous", "torch")
    assert {worker["environment"]["MASTER_ADDR"] for worker in plan["workers"]} == {address}


def test_completed_table_in_a_swapped_config_map_is_found(pod: VolcanoPod) -> None:
    """The kubelet makes a new directory, and renames a link to it over the old one."""

    def swap(number: int, document: dict[str, Any]) -> None:
        directory = pod.config / f"..{number}"
        directory.mkdir()
        (directory / "jobstart_hccl.json").write_text(json.dumps(document))
        os.symlink(directory.name, pod.config / "..data_tmp")
        os.rename(pod.config / "..data_tmp", pod.config / "..data")

    swap(1, {"status": "initializing", "version": "1.0", "server_count": "", "server_list": None})
    os.symlink("..data/jobstart_hccl.json", pod.table)
    running = pod.start(*RANKS)
    running.until('status is "initializing"')
    swap(2, table(0, 1))
    ended = running.end()
    assert ended.code == 0, ended.output
    assert "[rank 3] 3 of 4" in ended.output


ACJOB = {
    "MINDX_TASK_ID": "3f", "RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0,1",
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "2222", "XDL_IP": "10.0.0.2",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "77", "SLURM_NODEID": "1", "SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "127.0.0.1,127.0.0.2",
}  # fmt: skip
MODELARTS = {"MA_NUM_HOSTS": "2", "MA_VJ_NAME": "ma-job-x", **TWO}
OF_A_RANK = ("RANK_ID", "RANK_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "DEVICE_ID")


def on(pod: VolcanoPod, variables: dict[str, str]) -> VolcanoPod:
    """Returns the pod with these variables, and with Volcano's only if they are among them."""
    volcano = {"VC_TASK_INDEX": "1" if "VC_WORKER_NUM" in variables else "", "VK_TASK_INDEX": ""}
    pod.variables = {**volcano, **variables}
    return pod


def test_table_in_a_directory_of_mindcluster_is_found(pod: VolcanoPod) -> None:
    pod.table.with_name("hccl.json").write_text(json.dumps(table(0, 1)))
    assert ranks(on(pod, ACJOB).plan()) == [2, 3]


@pytest.mark.parametrize("rendezvous", ["rank-table", "torch"])
def test_training_gets_the_same_environment_on_each_platform(pod: VolcanoPod, rendezvous: str) -> None:
    pod.table.write_text(json.dumps(table(0, 1)))
    seen = []
    for variables in (MODELARTS, TWO, ACJOB, SLURM):
        plan = on(pod, variables).plan("--rendezvous", rendezvous)
        environments = [{**variables, **worker["environment"]} for worker in plan["workers"]]
        seen.append([{name: rank.get(name) for name in OF_A_RANK} for rank in environments])
        masters = {rank.get("MASTER_ADDR") for rank in environments}
        assert masters == ({"127.0.0.1"} if rendezvous == "torch" else {None})
    assert seen[0][1]["RANK_ID" if rendezvous == "rank-table" else "RANK"] == "3"
    assert all(rank == seen[0] for rank in seen), seen


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        (MODELARTS, "platform: ModelArts on Volcano"),
        (TWO, "platform: Volcano"),
        (ACJOB, "platform: MindCluster"),
        (SLURM, "platform: Slurm"),
    ],
)
def test_first_line_names_the_platform(pod: VolcanoPod, variables: dict[str, str], first: str) -> None:
    pod.table.write_text(json.dumps(table(0, 1)))
    assert on(pod, variables).boot(*RANKS).output.splitlines()[0].rstrip() == f"[ma_boot] {first}"


def test_two_platforms_at_once_are_an_error_until_one_is_chosen(pod: VolcanoPod) -> None:
    pod.table.write_text(json.dumps(table(0, 1)))
    pod.variables.update(SLURM)
    ended = pod.boot(*RANKS)
    assert ended.code == 78
    assert "two platforms at once: slurm by SLURM_JOB_ID, and volcano by VC_TASK_INDEX" in ended.output
    assert "slurm by SLURM_JOB_ID" in ended.output
    assert pod.boot("--platform", "slurm", *RANKS).code == 0


def test_doctor_shows_the_source_of_each_value(pod: VolcanoPod) -> None:
    pod.table.write_text(json.dumps(table(0, 1)))
    shown = " ".join(on(pod, ACJOB).boot("doctor").output.split())
    for text in ("MindCluster, by", "nodes 2 WORLD_SIZE / LOCAL_WORLD_SIZE", "node 1 RANK",
                 "master 127.0.0.1 MASTER_ADDR", "devices 2 LOCAL_WORLD_SIZE", "default"):  # fmt: skip
        assert text in shown, shown
