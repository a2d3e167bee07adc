"""`ma_boot doctor` on GPUs, with a fake of NVML's library; values are those of a recorded H100."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.node.doctor.gpu import judge_nccl, judge_torch
from tests.functional.cli.findings import doctor, only
from tests.functional.gpus.fake_gpus import FakeGpus
from tests.functional.node import RANK, Node

# A card without processes.
IDLE = {"memory": 600 << 20}


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    gpus = FakeGpus(tmp_path)
    gpus.set(count=2, **IDLE)
    return gpus


@pytest.fixture
def node(tmp_path: Path, gpus: FakeGpus) -> Node:
    return Node(tmp_path, variables={"RANK_TABLE_FILE": "", **gpus.variables})


def test_healthy_gpus_have_rows_and_no_npu_is_missed(node: Node) -> None:
    findings = doctor(node)
    evidence = "2 x NVIDIA H100 80GB HBM3, NVLinks of each: 18 of 18, remapped rows of memory: 0"
    assert only(findings, "GPU") == {"check": "GPU", "severity": "ok", "evidence": evidence, "remedy": ""}
    assert only(findings, "driver")["evidence"] == "version 580.159.03, CUDA up to 13.0"
    assert "NPU" not in findings


@pytest.mark.parametrize(
    ("values", "evidence"),
    [
        ({"gpu_1_ecc": 3}, "GPU 1 has 3 uncorrectable ECC errors"),
        ({"gpu_0_failure": 1}, "GPU 0: a row of its memory could not be remapped"),
        ({"gpu_1_pending": 1}, "GPU 1: the remapping of a row of its memory waits for a reset"),
        ({"gpu_0_recovery": 2}, "GPU 0: the driver asks to reboot the node"),
        ({"gpu_1_handle": "lost"}, "GPU 1 does not answer its driver"),
        ({"gpu_1_xid": 79}, "GPU 1: Xid 79 (the GPU has fallen off the bus)"),
        ({"count": 1}, "the driver shows 1 cards, MA_NUM_GPUS is 2"),
        ({"init": "unsupported"}, "the driver of the GPUs does not answer"),
    ],
)
def test_broken_gpu_is_an_error(node: Node, gpus: FakeGpus, values: dict[str, object], evidence: str) -> None:
    gpus.set(**values)
    rows = doctor(node, code=78)["GPU"]
    assert ("error", evidence) in [(row["severity"], row["evidence"]) for row in rows]


def test_gpus_in_use_and_links_that_are_down_are_warnings(node: Node, gpus: FakeGpus) -> None:
    gpus.set(gpu_1_memory=5107 << 20, gpu_1_pid=4711, gpu_0_up=12)
    findings = doctor(node)
    assert findings["GPU"][0]["evidence"] == "GPU 1: 5107 MiB of its memory are in use by process 4711"
    assert only(findings, "NVLink")["evidence"] == "GPU 0: 12 of 18 links are up"


@pytest.mark.parametrize(
    ("value", "reason", "severity"),
    [("0,2", "GPU 2 does not exist", "error"), ("1", "MA_NUM_GPUS is 2", "warning")],
)
def test_hidden_gpus_are_named(node: Node, value: str, reason: str, severity: str) -> None:
    node.variables["CUDA_VISIBLE_DEVICES"] = value
    row = only(doctor(node, code=78 if severity == "error" else 0), "CUDA")
    assert (row["severity"], row["evidence"]) == (severity, f"CUDA_VISIBLE_DEVICES={value}, but {reason}")


def test_torch_for_a_newer_cuda_than_the_drivers_is_an_error(node: Node, gpus: FakeGpus) -> None:
    gpus.set(cuda=12040)
    python = node.root / "env" / "bin" / "python"
    version = node.root / "env" / "lib" / "python3.11" / "site-packages" / "torch" / "version.py"
    version.parent.mkdir(parents=True)
    version.write_text("__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n")
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    row = only(doctor(node, "--python", str(python), code=78), "torch")
    assert row["evidence"] == "built for CUDA 13.0, but the driver supports CUDA 12.4 at most"


def test_preflight_refuses_a_broken_gpu(node: Node, gpus: FakeGpus) -> None:
    gpus.set(gpu_0_ecc=1)
    ended = node.boot("--preflight", "--rendezvous", "none", RANK)
    assert ended.code == 78, ended.output
    assert "GPU: GPU 0 has 1 uncorrectable ECC errors; end the job" in ended.output


def test_driver_that_hangs_is_an_error_after_a_while(node: Node, gpus: FakeGpus) -> None:
    gpus.set(utilisation="hang")
    row = only(doctor(node, code=78), "GPU")
    assert row["evidence"] == "the driver of the GPUs does not answer"


@pytest.mark.parametrize(
    ("version", "driver", "severity"),
    [
        ("cuda = '12.8'\n", (12, 4), "ok"),
        ("cuda: Optional[str] = '13.0'\n", (13, 0), "ok"),
        ("cuda: Optional[str] = '13.0'\n", (12, 8), "error"),
        ("cuda: Optional[str] = None\n", (12, 8), "warning"),
        ("cuda = '13.0'\n", None, "ok"),
    ],
)
def test_torch_is_compared_with_the_driver(
    version: str, driver: tuple[int, int] | None, severity: str
) -> None:
    assert [finding.severity for finding in judge_torch(version, driver)] == [severity]


@pytest.mark.parametrize(
    ("value", "interfaces", "severity"),
    [
        ("bond0,eth0", ["eth0", "lo"], "ok"),
        ("bond0,eth0", ["ens3", "lo"], "error"),
        ("=eth", ["eth0"], "error"),
        ("eth", ["eth0"], "ok"),
        ("^lo,docker", ["lo", "docker0", "eth0"], "ok"),
        ("^lo,docker", ["lo", "docker0"], "error"),
    ],
)
def test_interfaces_of_nccl_are_compared_with_those_here(
    value: str, interfaces: list[str], severity: str
) -> None:
    findings = judge_nccl({"NCCL_SOCKET_IFNAME": value}, interfaces, [])
    assert [finding.severity for finding in findings] == [severity]


def test_unset_variables_of_roce_are_named() -> None:
    environ = {"NCCL_IB_HCA": "mlx5_0:1", "NCCL_IB_TC": "128"}
    (finding,) = judge_nccl(environ, [], ["mlx5_0", "mlx5_1"], is_roce=True)
    assert (finding.severity, finding.evidence) == (
        "warning", "adapters mlx5_0, mlx5_1, but not set: NCCL_IB_GID_INDEX=3, NCCL_IB_TIMEOUT=22"
    )  # fmt: skip
    assert [found.severity for found in judge_nccl(environ, [], ["mlx5_0"])] == ["ok"]
    (finding,) = judge_nccl({"NCCL_IB_DISABLE": "1"}, [], ["mlx5_0"])
    assert finding.evidence.startswith("NCCL_IB_DISABLE=1")
