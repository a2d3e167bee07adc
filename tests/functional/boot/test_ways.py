"""Ways to start ranks, with real processes: their environments, and options rejected before a start."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.node import RANK, Booting, Ended, Node, template_two
from tests.requirement import unavailable

SEE = [RANK, "print-environment"]
OF_LAUNCHERS = (
    "NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT", "RANK_START", "RANK_END", "WORLD_SIZE",
)  # fmt: skip


def environments(ended: Ended) -> list[dict[str, str]]:
    """Returns the environment of each process, by its local rank."""
    assert ended.code == 0, ended.output
    lines = [line[line.index("{") :] for line in ended.output.splitlines() if "] {" in line]
    return sorted((json.loads(line) for line in lines), key=lambda rank: str(rank.get("LOCAL_RANK")))


def two_nodes(index: int, **more: str) -> dict[str, str]:
    return {
        "MA_NUM_HOSTS": "2",
        "VC_TASK_INDEX": str(index),
        "VC_WORKER_HOSTS": "localhost,127.0.0.2",
        **more,
    }


def listening() -> tuple[socket.socket, int]:
    other = socket.socket()
    other.bind(("", 0))
    other.listen()
    return other, other.getsockname()[1]


class TestTorch:
    def test_node_in_the_middle_gets_ranks_and_master(self, node: Node) -> None:
        node.variables.update(two_nodes(1), RANK_ID="9", RANK_SIZE="9")
        node.complete_table(pods=2)
        node.index = 1
        seen = environments(node.boot("--rendezvous", "torch", *SEE))
        wanted = [
            "MASTER_ADDR",
            "MASTER_PORT",
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "GROUP_RANK",
        ]
        assert [[rank[name] for name in wanted] for rank in seen] == [
            ["127.0.0.1", "29500", "2", "4", "0", "2", "1"],  # the name is resolved
            ["127.0.0.1", "29500", "3", "4", "1", "2", "1"],
        ]
        assert not {"RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"} & (set(seen[0]) | set(seen[1]))

    def test_chosen_devices_are_sorted_and_mapped_to_processes(self, node: Node) -> None:
        """`device_id_to_process_device_map("3,2")` of the guide is {0: 2, 1: 3}."""
        node.variables.update(MA_NUM_GPUS="4", RANK_TABLE_FILE="")
        seen = environments(node.boot("--rendezvous", "torch", "--devices", "3,2", *SEE))
        assert [(rank["LOCAL_RANK"], rank["DEVICE_ID"], rank["WORLD_SIZE"]) for rank in seen] == [
            ("0", "2", "2"),
            ("1", "3", "2"),
        ]

    @pytest.mark.parametrize(
        ("devices", "code", "message"),
        [
            ("0,2", 64, "expected adjacent devices such as 1,2 or 2,3"),
            ("1,1", 64, "contains a device twice"),
            ("a", 64, "expected numbers such as 1,2"),
            ("1,2", 78, "--devices names device 2, but this node has 2: expected 0 to 1"),
        ],
    )
    def test_invalid_choice_of_devices_is_rejected(
        self, node: Node, devices: str, code: int, message: str
    ) -> None:
        node.variables["RANK_TABLE_FILE"] = ""
        ended = node.boot("--rendezvous", "torch", "--devices", devices, *SEE)
        assert ended.code == code
        assert message in ended.output

    def test_dynamic_routing_reorders_the_nodes(self, node: Node) -> None:
        node.variables.update(two_nodes(0, RANK_AFTER_ACC="1", MA_MASTER_INDEX="1"), RANK_TABLE_FILE="")
        seen = environments(node.boot("--rendezvous", "torch", *SEE))
        assert [(rank["RANK"], rank["GROUP_RANK"], rank["MASTER_ADDR"]) for rank in seen] == [
            ("2", "1", "127.0.0.2"), ("3", "1", "127.0.0.2")
        ]  # fmt: skip

    @pytest.mark.parametrize("rendezvous", ["torch", "mindspore"])
    def test_a_port_that_is_taken_is_found_before_a_process_starts(self, node: Node, rendezvous: str) -> None:
        other, port = listening()
        with other:
            node.variables["RANK_TABLE_FILE"] = ""
            node.variables["MABOOT_RENDEZVOUS_PORT"] = str(port)
            ended = node.boot("--rendezvous", rendezvous, RANK, "print:started")
        assert ended.code == 78
        assert f"rendezvous port {port}: in use by another process" in ended.output
        assert "started" not in ended.output

    @pytest.mark.parametrize("hosts", ["::1,::1", "[::1],[fd00::2]"])
    @pytest.mark.parametrize("rendezvous", ["torch", "mindspore"])
    def test_ipv6_addresses_have_no_brackets(self, node: Node, hosts: str, rendezvous: str) -> None:
        """Without brackets, as `socket.getaddrinfo` and `torch.distributed.TCPStore` take them."""
        node.variables.update(two_nodes(1, VC_WORKER_HOSTS=hosts), RANK_TABLE_FILE="")
        seen = environments(node.boot("--rendezvous", rendezvous, *SEE))
        name = {"torch": "MASTER_ADDR", "mindspore": "MS_SCHED_HOST"}[rendezvous]
        assert [rank[name] for rank in seen] == ["::1", "::1"]

    def test_missing_host_names_are_a_configuration_error(self, node: Node) -> None:
        node.variables.update(two_nodes(0, VC_WORKER_HOSTS=""), RANK_TABLE_FILE="")
        ended = node.boot("--rendezvous", "torch", *SEE)
        assert ended.code == 78
        assert "VC_WORKER_HOSTS is not set, but the job has 2 nodes" in ended.output


class TestMindSpore:
    def test_workers_and_scheduler_follow_the_nodes(self, node: Node) -> None:
        node.variables.update(two_nodes(1), RANK_TABLE_FILE="")
        seen = environments(node.boot("--rendezvous", "mindspore", *SEE))
        assert [rank["MS_NODE_ID"] for rank in seen] == ["2", "3"]
        assert {rank["MS_ROLE"] for rank in seen} == {"MS_WORKER"}  # the scheduler is on the first node
        assert {(rank["MS_SCHED_HOST"], rank["MS_SCHED_PORT"], rank["MS_WORKER_NUM"]) for rank in seen} == {
            ("127.0.0.1", "8118", "4")
        }

    def test_a_scheduler_that_fails_is_the_cause(self, node: Node) -> None:
        program = node.home / "s.py"
        program.write_text(
            "import os, time\nif os.environ['MS_ROLE'] == 'MS_SCHED': raise SystemExit(5)\ntime.sleep(600)"
        )
        node.variables["RANK_TABLE_FILE"] = ""
        other, port = listening()
        other.close()
        node.variables["MABOOT_RENDEZVOUS_PORT"] = str(port)
        ended = node.boot("--rendezvous", "mindspore", "s.py")
        assert ended.code == 5
        assert "exit code 5: scheduler ended with exit code 5" in ended.output


class TestPerNode:
    def test_the_command_gets_the_nodes_place_in_variables_and_arguments(self, node: Node) -> None:
        node.variables.update(two_nodes(1), RANK_TABLE_FILE="")
        ended = node.boot(
            "--per-node", RANK, "print-environment", "print:$MABOOT_NNODES-${MABOOT_NODE_RANK}-$MABOOT_NPROC",
            "print:$MABOOT_WORLD_SIZE-$MABOOT_MASTER_ADDR-$MABOOT_MASTER_PORT", "print:$HOME-$$-$MABOOT_OTHER",
        )  # fmt: skip
        (seen,) = environments(ended)
        assert "[command] 2-1-2\n" in ended.output
        assert "[command] 4-127.0.0.1-29500\n" in ended.output
        assert "[command] $HOME-$$-$MABOOT_OTHER\n" in ended.output  # nobody's shell
        assert seen["MABOOT_NODE_RANK"] == "1"
        assert not {"RANK_TABLE_FILE", "RANK", "LOCAL_RANK"} & set(seen)

    def test_the_command_gets_the_names_that_launchers_read(self, node: Node) -> None:
        """The user's values take precedence, also in arguments."""
        node.variables.update(two_nodes(1), RANK_TABLE_FILE="", NNODES="7", MASTER_PORT="2222")
        ended = node.boot(
            "--per-node", RANK, "print-environment", "print:$NNODES-$RANK_END-$MABOOT_MASTER_PORT"
        )
        (seen,) = environments(ended)
        assert {name: seen.get(name) for name in OF_LAUNCHERS} == {
            "NNODES": "7", "NODE_RANK": "1", "NPROC_PER_NODE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "2222", "RANK_START": "2", "RANK_END": "4", "WORLD_SIZE": None,
        }  # fmt: skip
        assert "[command] 7-4-2222\n" in ended.output

    def test_with_rendezvous_none_the_command_gets_none_of_them(self, node: Node) -> None:
        node.variables.update(two_nodes(1), RANK_TABLE_FILE="", NNODES="2")
        ended = node.boot(
            "--per-node", "--rendezvous", "none", RANK, "print-environment", "print:$NNODES-$RANK_END"
        )
        (seen,) = environments(ended)
        assert seen.keys() & set(OF_LAUNCHERS) == {"NNODES"}
        assert "[command] $NNODES-$RANK_END\n" in ended.output

    def test_the_port_of_a_torchrun_that_started_ma_boot_is_not_used_again(self, node: Node) -> None:
        node.variables = {
            "TORCHELASTIC_RUN_ID": "x", "GROUP_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
            "RANK": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.3", "MASTER_PORT": "2222",
            "RANK_TABLE_FILE": "", "MA_NUM_GPUS": "", "MA_VJ_NAME": "", "MA_CURRENT_INSTANCE_NAME": "",
        }  # fmt: skip
        (seen,) = environments(node.boot("--platform", "torchrun", "--per-node", *SEE))
        assert [seen[name] for name in OF_LAUNCHERS] == ["2", "1", "1", "127.0.0.3", "29500", "1", "2", "2"]

    def test_exit_code_of_the_launcher_is_that_of_the_job(self, node: Node) -> None:
        node.variables["RANK_TABLE_FILE"] = ""
        ended = node.boot("--per-node", RANK, "exit:9:-")
        assert ended.code == 9
        assert "exit code 9: command ended with exit code 9" in ended.output

    def test_command_gets_the_rank_table(self, node: Node) -> None:
        (seen,) = environments(node.boot("--per-node", "--rendezvous", "rank-table", *SEE))
        assert (seen["RANK_START"], seen["RANK_SIZE"]) == ("0", "2")
        assert json.loads(Path(seen["RANK_TABLE_FILE"]).read_text())["version"] == "1.0"


class TestUnexpandedVariables:
    UNEXPANDED = ("print:$VC_TASK_INDEX-${VC_WORKER_HOSTS%%,*}", "print:$HOME-$MABOOT_NNODES")

    def test_variables_that_nothing_expands_are_a_warning_with_the_remedy(self, node: Node) -> None:
        node.variables["VC_TASK_INDEX"] = "0"
        ended = node.boot(RANK, *self.UNEXPANDED)
        (line,) = (line for line in ended.output.splitlines() if "which nothing expands" in line)
        named, _, remedy = line.partition("; write: ")
        assert named.endswith(
            "warning: COMMAND contains $MABOOT_NNODES, $VC_TASK_INDEX, $VC_WORKER_HOSTS, which nothing expands, "
            "since ma_boot starts COMMAND without a shell"
        )
        again = node.boot(*shlex.split(remedy))
        assert "[rank 1] 0-\n" in again.output
        assert "which nothing expands" not in again.output

    def test_expanded_variables_are_no_warning(self, node: Node) -> None:
        ended = node.boot("--per-node", RANK, "print:$MABOOT_NNODES-$MA_JOB_DIR-$NNODES-$HOME")
        assert ended.code == 0, ended.output
        assert "which nothing expands" not in ended.output


class TestRankTable:
    def test_physical_device_numbers_follow_the_guide_of_mindspore(self, node: Node) -> None:
        document: dict[str, Any] = template_two(1, 2)
        for number, device in enumerate(document["group_list"][0]["instance_list"][0]["devices"]):
            device["device_id"] = str(number + 4)
        node.table.write_text(json.dumps(document))
        assert [rank["DEVICE_ID"] for rank in environments(node.boot(*SEE))] == ["0", "1"]
        node.variables["MABOOT_DEVICE_ID"] = "physical"
        seen = environments(node.boot(*SEE))
        assert [(rank["DEVICE_ID"], rank["ASCEND_DEVICE_ID"]) for rank in seen] == [("4", "0"), ("5", "1")]

    def test_table_contains_the_chosen_devices_only(self, node: Node) -> None:
        node.devices = 4
        node.complete_table()
        seen = environments(node.boot("--devices", "1,2", *SEE))
        assert [(rank["RANK_ID"], rank["DEVICE_ID"], rank["RANK_SIZE"]) for rank in seen] == [
            ("0", "1", "2"),
            ("1", "2", "2"),
        ]
        table = json.loads(Path(seen[0]["RANK_TABLE_FILE"]).read_text())
        assert [device["device_id"] for device in table["server_list"][0]["device"]] == ["1", "2"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--rank-size", "2"], "--rank-size, --rank-start, --device-start: only with --rank-table-file"),
            (["--per-node", "--rendezvous", "mpi"], "--rendezvous mpi already starts mpirun once per node"),
            (["--per-node", "--bind-cores", "equal"], "--bind-cores: with --per-node"),
            (["--rendezvous", "launcher"], "--rendezvous launcher: only with --per-node"),
        ],
    )
    def test_conflicting_options_are_reported_together(
        self, node: Node, arguments: list[str], message: str
    ) -> None:
        ended = node.boot(*arguments, *SEE)
        assert ended.code == 64
        assert message in ended.output


def test_name_without_an_address_yet_is_awaited(node: Node) -> None:
    """A hosts file in a mount namespace stands in for the platform's name service."""
    node.variables.update(two_nodes(1, VC_WORKER_HOSTS="late.worker,127.0.0.2"), RANK_TABLE_FILE="")
    hosts = node.root / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    mounted = f'mount --bind {hosts} /etc/hosts || exit 99; exec "$@"'
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    process = subprocess.Popen(
        [*own, "sh", "-c", mounted, "sh", sys.executable, "-m", "ma_boot", "--rendezvous", "torch", *SEE],
        cwd=node.home, env=node.environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    running = Booting(node, process)
    assert process.stdout is not None
    first = process.stdout.readline()
    if process.poll() == 99 or b"unshare" in first or b"mount" in first:
        process.communicate()
        unavailable(f"no mount namespace of its own: {first.decode()}")
    running.until("late.worker has no address yet")
    with hosts.open("a") as file:
        file.write("127.0.0.3 late.worker\n")
    seen = environments(running.end())
    assert [rank["MASTER_ADDR"] for rank in seen] == ["127.0.0.3", "127.0.0.3"]
