"""Real MindSpore in each way of starting: dynamic cluster, rank table, msrun; a scheduler that fails."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

import ma_boot
from tests.functional.frameworks.checkpoint_jobs import documents
from tests.functional.frameworks.mindspore_jobs import events, rehearse
from tests.functional.frameworks.pythons import WITH_MINDSPORE
from tests.functional.frameworks.same_environment import PLATFORMS, differences, same_everywhere
from tests.functional.node import PROGRAMS
from tests.mindspore_end import again_after_a_crash

FOR_TRAINING = Path(ma_boot.__file__).parent / "for_training"
SUM = PROGRAMS / "ms_sum.py"

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(400)]


def test_the_dynamic_cluster_adds_up_over_two_nodes(tmp_path: Path) -> None:
    ended = again_after_a_crash(
        lambda: rehearse(tmp_path, 2, "--rendezvous", "mindspore", str(SUM)), "summed"
    )
    assert ended.code == 0, ended.output
    ranks = documents(ended.output, "summed")
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["MS_NODE_ID"] for rank in ranks] == ["0", "1", "2", "3"]  # by VC_TASK_INDEX
    assert {(rank["size"], rank["sum"], rank["RANK_TABLE_FILE"]) for rank in ranks} == {(4, 10.0, None)}
    assert [rank["DEVICE_ID"] for rank in ranks] == ["0", "1", "0", "1"]


def test_the_training_is_the_same_on_every_platform(tmp_path: Path) -> None:
    """Each rank sees the same, and has the same sum."""
    ranks = {}
    for platform in PLATFORMS:
        words = ["--devices-per-node", "1", "--platform", platform, "--rendezvous", "mindspore", str(SUM)]
        ended = again_after_a_crash(functools.partial(rehearse, tmp_path, 2, *words, "environ"), "summed")
        assert ended.code == 0, ended.output
        ranks[platform] = documents(ended.output, "summed")
    assert [[rank["sum"] for rank in of_platform] for of_platform in ranks.values()] == [[3.0, 3.0]] * 3
    assert "MS_WORKER_NUM" in same_everywhere(ranks["volcano"][0]["environ"])
    assert differences(ranks) == []


def test_a_scheduler_that_fails_is_named(tmp_path: Path) -> None:
    ended = rehearse(tmp_path, 1, "--rendezvous", "mindspore", str(SUM), "scheduler-fails")
    assert ended.code == 1
    assert "ValueError: planted in the scheduler" in ended.output.splitlines()[-1]
    assert "the cause: scheduler" in ended.output


def test_msrun_once_on_the_node(tmp_path: Path) -> None:
    """One node: msrun starts a scheduler on every machine that has the master's address, here on both."""
    ended = rehearse(
        tmp_path, 1, "--per-node", "--code-dir", str(PROGRAMS),
        "msrun", "--worker_num=$MABOOT_WORLD_SIZE", "--local_worker_num=$MABOOT_NPROC",
        "--node_rank=$MABOOT_NODE_RANK", "--master_addr=$MABOOT_MASTER_ADDR",
        "--master_port=$MABOOT_MASTER_PORT", "--join=True", "--log_dir=msrun_log",
        f"$MA_JOB_DIR/{PROGRAMS.name}/{SUM.name}",
    )  # fmt: skip
    assert ended.code == 0, ended.output
    logs = sorted(tmp_path.glob("ma_boot-rehearsal/*/node-0/home/ma-user/msrun_log/worker_*.log"))
    ranks = documents("\n".join(log.read_text() for log in logs), "summed")
    assert [(rank["rank"], rank["size"], rank["sum"]) for rank in ranks] == [(0, 2, 3.0), (1, 2, 3.0)]


RANK_TABLE = """
import json, os, sys
import mindspore as ms
ms.set_context(device_target="CPU")
ms.ops.add(ms.Tensor(1), ms.Tensor(1))
table = json.load(open(os.environ["RANK_TABLE_FILE"]))
ranks = {device["rank_id"]: device["device_id"] for server in table["server_list"] for device in server["device"]}
names = ("RANK_SIZE", "DEVICE_ID", "ASCEND_DEVICE_ID", "HCCL_CONNECT_TIMEOUT", "ASCEND_PROCESS_LOG_PATH")
seen = {"rank": os.environ["RANK_ID"], "in_table": len(ranks), "mindspore": ms.__version__}
seen.update((name, os.environ.get(name)) for name in names)
sys.stdout.write("table " + json.dumps(seen) + "\\n")
"""


def test_ranks_by_the_rank_table_and_mindspores_log_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform's faults mode sends MindSpore's own log to files: it names them by the RANK_ID it reads."""
    script = tmp_path / "code" / "table.py"
    script.parent.mkdir()
    script.write_text(RANK_TABLE)
    ms_log = tmp_path / "ms_log"
    for name, value in (("GLOG_v", "1"), ("GLOG_logtostderr", "0"), ("GLOG_log_dir", str(ms_log))):
        monkeypatch.setenv(name, value)
    ended = rehearse(tmp_path, 2, str(script))
    assert ended.code == 0, ended.output
    ranks = documents(ended.output, "table")
    assert [rank["rank"] for rank in ranks] == ["0", "1", "2", "3"]
    assert {(rank["in_table"], rank["RANK_SIZE"], rank["HCCL_CONNECT_TIMEOUT"]) for rank in ranks} == {
        (4, "4", "1800")
    }
    assert (
        [rank["DEVICE_ID"] for rank in ranks]
        == [rank["ASCEND_DEVICE_ID"] for rank in ranks]
        == ["0", "1"] * 2
    )
    assert all(rank["ASCEND_PROCESS_LOG_PATH"].endswith(f"process_log/rank_{rank['rank']}") for rank in ranks)
    assert sorted(path.name for path in ms_log.glob("rank_*")) == ["rank_0", "rank_1", "rank_2", "rank_3"]


def test_init_env_in_a_plain_python_process(tmp_path: Path) -> None:
    """Without ma_boot around it: one process, on the device that it is given."""
    program = (
        "from types import SimpleNamespace\nfrom ma_boot.training import init_env\n"
        "cfg = SimpleNamespace(seed=1, device_target='None', context_mode='graph', device_num=1, device_id=0)\n"
        "init_env(cfg)\nprint(cfg.device_target, cfg.device_num, cfg.rank_id, cfg.device_id)\n"
    )
    (tmp_path / "train.py").write_text(program)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(FOR_TRAINING)}
    done = subprocess.run(
        [str(WITH_MINDSPORE), "train.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["CPU 1 0 0"], done.stderr


def test_output_of_the_monitors_is_in_the_events(tmp_path: Path) -> None:
    monitors = str(PROGRAMS / "ms_monitors.py")
    ended = again_after_a_crash(
        lambda: rehearse(tmp_path, 1, "--rendezvous", "none", "--metrics", "1", monitors), "per step time"
    )
    assert ended.code == 0, ended.output
    ranks = [event["ranks"] for event in events(tmp_path, "metrics")]
    samples = [sample for sample in ranks if "loss" in sample]
    assert len(samples) >= 3
    steps = [
        [step for sample in samples for step in sample["step"][rank : rank + 1] if step] for rank in (0, 1)
    ]
    assert [of_rank[-1] for of_rank in steps] == [20, 20], "of the last epoch"
    for rank in (0, 1):
        losses = [sample["loss"][rank] for sample in samples if sample["loss"][rank] is not None]
        assert losses[-1] < losses[0] / 10
        times = [
            seconds
            for sample in samples
            for seconds in sample.get("step_time", [None, None])[rank:][:1]
            if seconds
        ]
        assert len(times) >= 2
        assert all(0.05 < seconds < 2 for seconds in times), "a step takes a tenth of a second"
