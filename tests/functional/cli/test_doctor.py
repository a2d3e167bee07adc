"""`ma_boot doctor` in real processes; `npu-smi` and `hccn_tool` are stand-ins, since there is no NPU here."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.doctor.container import System, check_directories, check_limits, check_space
from ma_boot.node.doctor.examination import examine
from ma_boot.node.doctor.network import judge_clock
from ma_boot.node.doctor.platform import check_variables
from ma_boot.platform.modelarts.findings import Finding
from ma_boot.platform.modelarts.job import read_job
from ma_boot.platform.rank_table import fake
from ma_boot.platform.recognition.place import Surroundings
from tests.conftest import CREDENTIALS
from tests.functional.cli.findings import doctor, only
from tests.functional.node import RANK, Node, template_two
from tests.obs import MemoryObs

STAND_INS = Path(__file__).parents[1] / "stand_ins"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, variables={"RANK_TABLE_FILE": ""})


def test_a_healthy_container_has_no_errors(node: Node) -> None:
    findings = doctor(node)
    for check in ("job", "home", "log", "mount", "space /", "limits", "python", "NPU"):
        assert check in findings
    assert only(findings, "NPU")["evidence"].startswith("no NPU: ")


def test_the_text_has_a_remedy_below_each_finding(node: Node) -> None:
    ended = node.boot("doctor")
    assert ended.code == 0, ended.output
    assert "warning  credentials  OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY not set\n" in ended.output
    assert "-> for a path mapping, set them" in ended.output
    assert ended.output.splitlines()[-1].startswith("0 errors, ")


@pytest.mark.parametrize(
    ("variables", "check", "evidence"),
    [
        ({"MA_NUM_HOSTS": "two"}, "variables", "MA_NUM_HOSTS is 'two'"),
        (
            {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "0", "VC_WORKER_NUM": "3"},
            "variables",
            "VC_WORKER_NUM is 3",
        ),
        (
            {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "0", "VC_WORKER_HOSTS": "127.0.0.1", "MA_JOB_DIR": "/x"},
            "variables",
            "has 1 names",
        ),
        ({"HCCL_CONNECT_TIMEOUT": "100000"}, "variables", "HCCL_CONNECT_TIMEOUT is '100000'"),
        ({"CM_CHIEF_IP": "10.0.0.1", "RANK_ID": "0"}, "variables", "HCCL accepts one"),
        ({"DEFAULT_CONDA_ENV_NAME": "missing"}, "python", "no such environment"),
        ({"OBS_ENDPOINT": "http://127.0.0.1:1"}, "OBS", "does not answer"),
        ({"S3_ENDPOINT": "127.0.0.1:1", "S3_USE_HTTPS": "0"}, "OBS", "http://127.0.0.1:1 does not answer"),
        ({"OBS_CREDENTIALS_FILE": "/no/such"}, "credentials", "/no/such: No such file"),
        ({"OBS_ACCESS_KEY_ID": "AK\n"}, "credentials", "OBS_ACCESS_KEY_ID: found a line break at its end"),
        ({"OBS_ENDPOINT": "https://obs.example.com/bkt"}, "OBS", "expected no path '/bkt' after the server"),
    ],
)
def test_wrong_variables_are_errors(node: Node, variables: dict[str, str], check: str, evidence: str) -> None:
    node.variables.update(variables)
    findings = doctor(node, code=78)
    assert any(f["severity"] == "error" and evidence in f["evidence"] for f in findings[check]), findings[
        check
    ]


@pytest.mark.parametrize(
    ("variable", "check"),
    [("MA_LOG_DIR", "log"), ("MA_MOUNT_PATH", "mount"), ("MA_HOME", "home"), ("HOME", "home")],
)
def test_relative_path_is_resolved_from_the_working_directory(node: Node, variable: str, check: str) -> None:
    """The same holds for `--preflight`."""
    node.variables[variable] = "not/there"
    if variable == "HOME":
        node.variables["MA_HOME"] = ""
    assert only(doctor(node), check)["evidence"] == "not/there can be created"


def test_old_variables_and_unresolvable_names_are_warnings(node: Node) -> None:
    node.variables.update(
        DLS_TASK_NUMBER="2", DLS_TASK_INDEX="1", VC_WORKER_HOSTS="127.0.0.1,no.such.host.invalid"
    )
    findings = doctor(node)
    assert "DLS_TASK_INDEX for VC_TASK_INDEX" in only(findings, "variables")["evidence"]
    assert "no.such.host.invalid" in only(findings, "names")["evidence"]


def test_a_port_in_use_is_a_warning(node: Node) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        node.variables["HCCL_IF_BASE_PORT"] = str(min(port, 65504))
        assert str(port) in only(doctor(node), "ports")["evidence"]


def test_obs_is_reachable_and_clocks_agree(node: Node, obs: MemoryObs) -> None:
    node.variables.update(OBS_ENDPOINT=obs.url, OBS_SECURITY_TOKEN="TOKENPLANTED", **CREDENTIALS)
    findings = doctor(node)
    assert only(findings, "OBS")["severity"] == only(findings, "clock")["severity"] == "ok"
    assert only(findings, "credentials")["evidence"] == "temporary credentials are set"
    assert "PLANTED" not in json.dumps(findings)


@pytest.mark.parametrize(("skew", "severity"), [(0, "ok"), (-59, "ok"), (61, "warning"), (-901, "error")])
def test_a_wrong_clock_is_found(skew: float, severity: str) -> None:
    assert judge_clock(skew).severity == severity


class TestRankTable:
    def test_table_that_contradicts_the_variables_is_an_error(self, node: Node) -> None:
        node.variables.update(RANK_TABLE_FILE=str(node.config), MA_NUM_HOSTS="4", VC_TASK_INDEX="0")
        node.table.write_text(json.dumps(template_two(2, 8)))
        evidence = [f["evidence"] for f in doctor(node, code=78)["rank table"]]
        assert "2 pods, MA_NUM_HOSTS is 4" in evidence
        assert "this container has 8 devices in the table, MA_NUM_GPUS is 2" in evidence

    def test_missing_table_is_no_error(self, node: Node) -> None:
        node.variables["RANK_TABLE_FILE"] = str(node.config)
        assert "No such file" in only(doctor(node), "rank table")["evidence"]
        node.table.write_text('{"status": "initializing"}')
        assert "initializing" in only(doctor(node), "rank table")["evidence"]

    def test_table_of_another_job_is_an_error(self, node: Node) -> None:
        node.variables["RANK_TABLE_FILE"] = str(node.config)
        node.table.write_text(json.dumps(fake(2, 8, lambda pod: f"other-{pod + 5}")))
        assert any(
            "was not found in the rank table" in f["evidence"] for f in doctor(node, code=78)["rank table"]
        )


class TestNpu:
    """The first of two nodes with two cards each."""

    @pytest.fixture
    def cards(self, node: Node, tmp_path: Path) -> Path:
        node.complete_table(pods=2)
        document = template_two(2, 2)["group_list"][0]["instance_list"]
        pods = sorted(document, key=lambda pod: str(pod["pod_name"]))  # the file has them in another order
        addresses = [[device["device_ip"] for device in pod["devices"]] for pod in pods]
        state = {
            "health": ["OK", "OK"],
            "ip": dict(zip("01", addresses[0])),
            "netdetect": {"0": "10.9.9.1", "1": "10.9.9.1"},
            "reachable": ["10.9.9.1", *addresses[1]],
            "peers": addresses[1],
            "set": [],
        }
        file = tmp_path / "cards.json"
        file.write_text(json.dumps(state))
        node.variables.update(
            RANK_TABLE_FILE=str(node.config), STAND_IN=str(file), MA_NUM_HOSTS="2", VC_TASK_INDEX="0",
            PATH=f"{STAND_INS}:{Path(sys.executable).parent}:/usr/bin:/bin",
        )  # fmt: skip
        return file

    def change(self, cards: Path, **values: Any) -> dict[str, Any]:
        state = {**json.loads(cards.read_text()), **values}
        cards.write_text(json.dumps(state))
        return state

    def test_healthy_cards_are_ok(self, node: Node, cards: Path) -> None:
        findings = doctor(node)
        assert [f["evidence"] for f in findings["NPU"]] == ["2 x 910B4, npu-smi 24.1.rc1"]
        evidence = [f["evidence"] for f in findings["card network"]]
        assert evidence == ["card 0: Success, netdetect 10.9.9.1", "card 1: Success, netdetect 10.9.9.1"]
        assert json.loads(cards.read_text())["set"] == []  # nothing was changed

    def test_children_of_a_tool_do_not_delay_the_doctor(
        self, node: Node, cards: Path, tmp_path: Path
    ) -> None:
        """A child that keeps the output open, as a call into the driver does that never returns."""
        tool = tmp_path / "bin" / "npu-smi"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nsleep 30 &\necho $! > {tmp_path}/pid\nexec {STAND_INS}/npu-smi "$@"\n')
        tool.chmod(0o755)
        node.variables["PATH"] = f"{tool.parent}:{node.variables['PATH']}"
        assert [f["evidence"] for f in doctor(node)["NPU"]] == ["2 x 910B4, npu-smi 24.1.rc1"]
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # which still runs

    def test_faulty_and_missing_cards_are_found(self, node: Node, cards: Path) -> None:
        self.change(cards, health=["OK", "Alarm"])
        assert "NPU 1 (910B4): Alarm" in doctor(node, code=78)["NPU"][0]["evidence"]
        self.change(cards, health=["OK"])
        assert "npu-smi shows 1 cards, MA_NUM_GPUS is 2" in doctor(node)["NPU"][1]["evidence"]

    def test_failing_npu_smi_is_reported(self, node: Node, cards: Path) -> None:
        self.change(cards, smi_code=187)
        evidence = only(doctor(node, code=78), "NPU")["evidence"]
        assert "exit code 187" in evidence
        assert "dcmi module initialize failed" in evidence

    def test_card_port_without_a_link_is_reported(self, node: Node, cards: Path) -> None:
        self.change(cards, reachable=[])
        assert [f["severity"] for f in doctor(node, code=78)["card network"]] == ["error", "error"]

    def test_card_address_that_differs_from_the_table_is_reported(self, node: Node, cards: Path) -> None:
        self.change(cards, ip={"0": "10.1.1.1", "1": "10.1.1.2"})
        assert "card 0 has 10.1.1.1, but" in only(doctor(node, code=78), "card address")["evidence"]

    @pytest.mark.invariant("A check of the container changes nothing, and is cheap before a job")
    def test_configure_pings_the_peer_of_each_card_and_restores_its_settings(
        self, node: Node, cards: Path
    ) -> None:
        peers = json.loads(cards.read_text())["peers"]
        findings = doctor(node, "--configure")
        assert [f["evidence"] for f in findings["card peers"]] == [
            f"card {i} reaches {peers[i]}" for i in (0, 1)
        ]
        state = json.loads(cards.read_text())
        assert state["set"] == [["0", peers[0]], ["0", "10.9.9.1"], ["1", peers[1]], ["1", "10.9.9.1"]]
        assert state["netdetect"] == {"0": "10.9.9.1", "1": "10.9.9.1"}

    def test_unreachable_peer_is_named(self, node: Node, cards: Path) -> None:
        peers = self.change(cards)["peers"]
        self.change(cards, reachable=["10.9.9.1", peers[0]])
        _, second = doctor(node, "--configure", code=78)["card peers"]
        assert second["evidence"] == f"card 1 to {peers[1]}: Fault"

    def test_driver_version_is_reported(self, node: Node, cards: Path, tmp_path: Path) -> None:
        (tmp_path / "driver").mkdir()
        (tmp_path / "driver" / "version.info").write_text("Version=24.1.rc1\nascendhal_version=7\n")
        system = System(node.environ(), "host", driver=str(tmp_path / "driver"))
        assert "version 24.1.rc1" in next(f.evidence for f in examine(system) if f.check == "driver")


class TestContainer:
    def job_in(self, home: Path) -> Any:
        return read_job({"MA_HOME": str(home), "MA_LOG_DIR": str(home / "file" / "log")}, "host")

    def test_log_directory_that_cannot_be_created_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no directory")
        log, _ = check_directories(System({}, "host"), self.job_in(tmp_path))
        assert log == Finding(
            "log", "error", f"{tmp_path}/file/log cannot be written: {tmp_path}/file: Not a directory",
            f"chown -R 1000:100 {tmp_path}/file/log, in the image or on the storage server",
        )  # fmt: skip

    def test_little_disk_space_is_reported(self, tmp_path: Path) -> None:
        system = System({}, "host", places=((str(tmp_path), 1_000_000), ("/no/such", 1)))
        first, second = check_space(system, self.job_in(tmp_path))
        assert first.severity == second.severity == "warning"
        assert "ModelArts requires 1000000 GB" in first.evidence

    def test_limits_matter_beside_infiniband(self, tmp_path: Path) -> None:
        assert (
            next(check_limits(System({}, "host", devices=str(tmp_path)), self.job_in(tmp_path))).severity
            == "ok"
        )
        (tmp_path / "infiniband").mkdir()
        finding = next(check_limits(System({}, "host", devices=str(tmp_path)), self.job_in(tmp_path)))
        assert finding.severity == "warning"
        assert "open files" in finding.evidence


class TestPreflight:
    def test_errors_end_the_job_before_its_processes_start(self, node: Node) -> None:
        node.variables["HCCL_CONNECT_TIMEOUT"] = "1"
        ended = node.boot("--rendezvous", "none", "--preflight", RANK, "print:started")
        assert ended.code == 78
        assert "HCCL accepts 120 to 7200 seconds" in ended.output
        assert "started" not in ended.output

    def test_warnings_are_printed_and_the_job_runs(self, node: Node) -> None:
        node.variables.update(DLS_TASK_NUMBER="1", MA_NUM_HOSTS="")
        ended = node.boot("--rendezvous", "none", "--preflight", RANK, "print:started")
        assert ended.code == 0, ended.output
        assert "preflight: variables: variables of ModelArts' first version" in ended.output

    @pytest.mark.invariant("A check of the container changes nothing, and is cheap before a job")
    def test_it_runs_no_program_and_uses_no_network(self, node: Node) -> None:
        """No program is run and nothing resolved: a name server that does not answer costs nothing."""
        node.variables.update(
            PATH=f"{STAND_INS}:{os.environ['PATH']}", VC_WORKER_HOSTS="no.such.host.invalid"
        )
        started = time.monotonic()
        ended = node.boot("--rendezvous", "none", "--preflight", RANK, "print:started")
        assert ended.code == 0, ended.output
        assert time.monotonic() - started < 20
        assert "npu-smi" not in ended.output


def test_the_number_of_nodes_in_a_hyperjobs_yaml_is_no_contradiction() -> None:
    """Volcano counts the pods of one child job; ModelArts, which has its own variables too, those of the job."""
    child = {"VC_TASK_INDEX": "1", "VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "hj-0-w-0.hj-0,hj-0-w-1.hj-0"}
    environ = {**child, "MA_NUM_HOSTS": "4", "MA_VJ_NAME": "hj"}
    job = read_job(environ, "hj-0-w-1", look=Surroundings)
    assert job.node_count == 4
    assert [finding.severity for finding in check_variables(environ, job)] == ["ok"]
    fewer = {**environ, "MA_NUM_HOSTS": "1", "VC_TASK_INDEX": "0"}
    on_modelarts = {**environ, "MA_JOB_DIR": "/home/ma-user/modelarts/user-job-dir"}
    for wrong in (fewer, on_modelarts):
        findings = check_variables(wrong, read_job(wrong, "hj-0-w-1", look=Surroundings))
        assert [finding.severity for finding in findings] == ["error", "error", "ok"]


def test_worker_count_of_a_volcano_task_is_no_contradiction() -> None:
    """A job with the tasks master and worker: `VC_WORKER_NUM` is that of the workers only."""
    environ = {
        "VC_TASK_INDEX": "0", "VC_WORKER_NUM": "1", "VC_WORKER_HOSTS": "t-worker-0.t", "VC_MASTER_NUM": "1",
        "VC_MASTER_HOSTS": "t-master-0.t",
    }  # fmt: skip
    job = read_job(environ, "t-worker-0", look=Surroundings)
    assert job.node_count == 2
    assert [finding.severity for finding in check_variables(environ, job)] == ["ok"]
