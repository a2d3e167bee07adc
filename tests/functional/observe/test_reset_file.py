"""MindCluster's reset.json beside a running node: starts held back, a graceful end, processes that start anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.boot.volcano_pod import table
from tests.functional.node import Booting, Node, events_in

# Each rank notes its start with the servers of its rank table, and waits to be stopped.
RANKS = """
import json, os, signal, sys
servers = [server["server_id"] for server in json.load(open(os.environ["RANK_TABLE_FILE"]))["server_list"]]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("rank", os.environ["RANK_ID"], "with", *servers, flush=True)
signal.sigwait([signal.SIGTERM])
print("saved", flush=True)
"""


class Pod(Node):
    """A pod of a vcjob of MindCluster: node 1 of 2, with a rank table and a reset file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.root / "reset").mkdir()
        self.program = self.home / "program.py"
        self.program.write_text(RANKS)
        self.variables = {
            "MA_VJ_NAME": "", "MA_CURRENT_INSTANCE_NAME": "", "MINDX_TASK_ID": "job", "RANK": "1", "LOCAL_WORLD_SIZE": "2",
            "WORLD_SIZE": "4", "MA_NUM_GPUS": "", "RANK_TABLE_FILE": str(self.config / "hccl.json"),
            "MABOOT_RESET_FILE": str(self.root / "reset" / "reset.json"),
        }  # fmt: skip
        self.write_table(table(0, 1), 1)
        self.reset({"status": "initializing"})

    def write_table(self, document: dict[str, Any], version: int) -> None:
        """As MindCluster: the table, then the file that counts."""
        (self.config / "hccl.json").write_text(json.dumps(document))
        (self.config / "version").write_text(str(version))

    def reset(self, document: dict[str, Any], kind: str = "") -> None:
        """Writes it in place."""
        (self.root / "reset" / "restartType").write_text(kind)
        (self.root / "reset" / "reset.json").write_text(json.dumps(document))

    def boots(self) -> Booting:
        return self.start("python", str(self.program))

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        (file,) = self.log_dir.glob("*-events.jsonl")
        return [event for event in events_in(file) if event["kind"] == kind]


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def ranks(status: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"RankId": number, "LogicId": 0, "Status": status} for number in numbers]


def test_no_process_starts_while_faults_are_collected(pod: Pod) -> None:
    pod.reset({"FaultFlushing": True})
    run = pod.boots()
    run.until("faults are still being collected (FaultFlushing)")
    assert b"rank 2 with" not in run.read
    pod.reset({"FaultFlushing": False})
    run.until("rank 3 with")
    run.signal()
    assert run.end().code == 143


def test_a_graceful_exit_is_a_stop_with_its_reason(pod: Pod) -> None:
    run = pod.boots()
    run.until("rank 3 with")
    pod.reset({"GracefulExit": 1})
    ended = run.end()
    assert ended.code == 143, ended.output
    assert "GracefulExit: save a checkpoint and end; ending this node as after SIGTERM" in ended.output
    assert ended.output.count("saved") == 2
    assert [event["reason"] for event in pod.events_of("reset")] == [
        "GracefulExit: save a checkpoint and end"
    ]


def test_a_fault_of_another_node_restarts_the_processes_with_the_new_table(pod: Pod) -> None:
    run = pod.boots()
    run.until("rank 3 with 10.0.0.1 10.0.0.2")
    pod.reset({"RankList": ranks("fault", 0), "RetryTime": 0}, "podReschedule")
    pod.reset({"RankList": ranks("unrecovered", 0), "RetryTime": 1}, "podReschedule")
    run.until("not recovered yet: rank 0")
    pod.reset({"RankList": ranks("recovered", 0), "RetryTime": 1}, "podReschedule")
    run.until("the rank table still names the replaced pods")
    replaced = table(0, 1)
    replaced["server_list"][0]["server_id"] = "10.0.0.9"
    pod.write_table(replaced, 2)
    run.until("rank 3 with 10.0.0.9 10.0.0.2")
    pod.reset({"GracefulExit": 1, "RetryTime": 1}, "podReschedule")
    ended = run.end()
    assert ended.code == 143, ended.output
    assert [event["attempt"] for event in pod.events_of("restart")] == [2]
    assert "rank 0 must recover (unrecovered)" in pod.events_of("restart")[0]["reason"]
    logs = sorted(file.name for file in pod.log_dir.glob("*-proc-rank-2-*.txt"))
    assert len(logs) == 2, logs


def test_a_reset_that_is_never_over_ends_the_node(pod: Pod) -> None:
    pod.program.write_text(RANKS.replace('"saved"', '"saved in time"'))
    run = pod.start(
        "--rank-table-timeout",
        "2",
        "python",
        str(pod.program),
    )
    run.until("rank 3 with")
    pod.reset({"RankList": ranks("unrecovered", 0)})
    ended = run.end()
    assert ended.code == 75, ended.output
    assert "not recovered yet: rank 0, for 2 s" in ended.output


@pytest.mark.parametrize("only", [False, True])
def test_a_fault_of_an_own_rank_ends_the_node(pod: Pod, only: bool) -> None:
    run = pod.boots()
    run.until("rank 3 with")
    pod.reset({"RankList": ranks("fault", 3), "RestartFaultProcess": only})
    ended = run.end()
    assert ended.code == 143
    assert "a fault of rank 3 on this node" in ended.output
    assert ("restart that process alone, which ma_boot does not do; ending" in ended.output) == only
