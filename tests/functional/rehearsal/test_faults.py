"""Whole rehearsals with faults, a served OBS, channels of the job form, and the platform's own paths."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.rehearsal.faults import parse_faults
from ma_boot.desk.rehearsal.injection import Injector, Watch
from ma_boot.desk.rehearsal.injection_rules import JobState
from ma_boot.desk.rehearsal.kept import kept_in, prune
from ma_boot.desk.rehearsal.node_processes import LocalProcesses, StartedNode
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.summary import FILE
from tests.conftest import CREDENTIALS
from tests.functional.node import Ended, alive, eventually
from tests.functional.rehearsal.jobs import (
    MAPPING,
    SHAPE,
    end,
    node_events,
    processes,
    rehearse,
    start,
    stopped_with_outputs,
)
from tests.obs import MemoryObs, obs_fault

needs_bwrap = pytest.mark.usefixtures("bubblewrap")


def verdicts(laptop: Path) -> list[dict[str, Any]]:
    (file,) = laptop.glob(f"ma_boot-rehearsal/*/{FILE}")
    verdicts: list[dict[str, Any]] = json.loads(file.read_text())
    return verdicts


def with_fault(laptop: Path, *words: str) -> Ended:
    return rehearse(laptop, *SHAPE, "--tee", "none", *words)


def environments(laptop: Path) -> dict[int, dict[str, str]]:
    """The environment that each rank printed at its last start."""
    logs = laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/modelarts/log/*-proc-rank-*.txt")
    last = [json.loads(log.read_text().splitlines()[0]) for log in logs if ".1.txt" not in log.name]
    return {int(environ["RANK_ID"]): environ for environ in last}


def test_rank_that_raises_is_named_in_the_verdict(laptop: Path) -> None:
    words = ["write:out/RANK:x", "print:ready", "sleep"]
    ended = with_fault(laptop, *MAPPING, "--fault", "raise rank=3 line=1", "project/train.py", *words)
    assert ended.code == 130, ended.output
    (verdict,) = verdicts(laptop)
    assert (verdict["came"], verdict["code"], verdict["wrong"]) == (True, 130, [])
    assert verdict["cause"].startswith("node 1, rank 3: KeyboardInterrupt, at project/train.py:")
    assert "fault: raise rank=3 line=1" in ended.output
    assert processes(laptop) == []


@pytest.mark.invariant("A fault that was not injected makes the rehearsal fail")
def test_a_fault_that_is_not_injected_is_a_deviation(laptop: Path) -> None:
    ended = with_fault(laptop, "--fault", "kill rank=1 at=10m", "project/train.py")
    why = "the fault was not injected: rank 1 had already ended"
    assert ended.code == 1, ended.output
    assert ended.output.splitlines()[-1] == (
        f"[ma_boot] exit code 1: not as expected: {why} (kill rank=1 at=600s); the job's own exit code is 0"
    )
    assert (verdicts(laptop)[0]["wrong"], verdicts(laptop)[0]["code"]) == ([why], 0)


def test_every_kind_whose_moment_never_comes_is_a_deviation(laptop: Path) -> None:
    late = (
        "lost node=0",
        "restart",
        "rescheduled node=1",
        "stop",
        "stop node=1",
        "hang rank=0",
    )
    faults = [f"{fault} at=10m" for fault in late]
    faults += ["raise rank=1 line=1000000", "kill rank=3 line=99", "obs-503 key=elsewhere"]
    words = [word for fault in faults for word in ("--fault", fault)]
    ended = with_fault(laptop, *MAPPING, *words, "project/train.py")
    assert ended.code == 1, ended.output
    assert [verdict["fault"] for verdict in verdicts(laptop) if not verdict["wrong"]] == []
    assert f"(and {len(faults) - 1} more)" in ended.output.splitlines()[-1]


@pytest.mark.parametrize("words", [["--input", "x=obs://bucket/none/", "--obs-root", "obs"], ["--plan"]])
def test_a_rehearsal_that_did_not_begin_leaves_nothing(laptop: Path, words: list[str]) -> None:
    ended = rehearse(laptop, *words, "project/train.py")
    assert ended.code == (0 if words == ["--plan"] else 66), ended.output
    assert not (laptop / "ma_boot-rehearsal").exists()


def test_a_rehearsal_is_known_however_early_it_is_killed(laptop: Path) -> None:
    (laptop / "project" / "large").write_bytes(bytes(300 << 20))  # its copies take a while
    running = start(laptop, "--nodes", "4", "project/train.py")
    place = laptop / "ma_boot-rehearsal"
    eventually(lambda: list(place.glob("ma-job-*/node-*")), "the directory of a node")
    running.kill()
    running.communicate()
    assert [(kept.is_running, kept.page) for kept in kept_in(place)] == [(False, None)]
    assert prune(place, 0) == (1, [])
    assert [left.name for left in place.iterdir()] == [".gitignore"]


def test_after_a_stop_by_the_user_nothing_particular_is_expected(laptop: Path) -> None:
    running = start(
        laptop, "--fault", "kill rank=0 at=10m", "project/train.py", f"ready:{laptop}/ready", "sleep"
    )
    eventually(lambda: list(laptop.glob("ready*")), "the rank")
    running.send_signal(signal.SIGTERM)
    assert end(running).code == 143


@pytest.mark.parametrize(("fault", "code"), [("kill rank=1 line=1", 137), ("rescheduled node=0 at=8s", 0)])
def test_a_process_that_outlives_the_job_is_a_deviation(laptop: Path, fault: str, code: int) -> None:
    """A rank's child carries the marker of another ma_boot, so that this one leaves it alone."""
    (laptop / "project" / "train.py").write_text(
        "import os, subprocess, time\n"
        "if (os.environ['MA_PROC_START_CNT'], os.environ['MA_SCHEDULE_CNT']) != ('1', '1'): raise SystemExit\n"
        "kept = {**os.environ, 'MABOOT_RUN': 'another'}\n"
        "print(subprocess.Popen(['sleep', '600'], env=kept, start_new_session=True, stdout=-3).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    ended = with_fault(laptop, "--fault", fault, "project/train.py")
    assert ended.code == 1, ended.output
    assert verdicts(laptop)[0]["code"] == code
    (wrong,) = verdicts(laptop)[0]["wrong"]
    assert wrong.startswith("processes still running at the end: ")
    left = [int(pid) for pid in wrong.rpartition(": ")[2].split(", ")]
    assert left
    eventually(lambda: not any(alive(pid) for pid in left), "the kernel has ended what was killed")


def starts_twice(laptop: Path, fault: str) -> Ended:
    """A job whose ranks wait: the fault is injected once all of them run, and they end once they run again."""
    running = start(
        laptop, *SHAPE, "--fault", f"{fault} at=6s", "project/train.py",
        "print-environment", f"ready:{laptop}/ready", f"await:{laptop}/go",
    )  # fmt: skip
    try:
        eventually(lambda: len(list(laptop.glob("ready.*"))) == 4, "the first start")
        first = {path.name: path.read_text() for path in laptop.glob("ready.*")}
        for home in laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user"):
            (home / "left").write_text("by the first start")
        eventually(
            lambda: all(path.read_text() not in ("", first[path.name]) for path in laptop.glob("ready.*")),
            "the second start",
        )
    finally:  # the job ends, whatever was seen
        (laptop / "go").write_text("")
        ended = end(running)
    return ended


AGAIN, NEW = ("1", "2"), ("2", "1")  # MA_SCHEDULE_CNT, MA_PROC_START_CNT


@pytest.mark.parametrize(
    ("fault", "nodes_kept", "counted"),
    [
        ("restart", ["node-0", "node-1"], [AGAIN] * 4),
        ("rescheduled node=1", ["node-0"], [AGAIN, AGAIN, NEW, NEW]),
        ("rescheduled", [], [NEW] * 4),
    ],
)
def test_a_rescheduled_node_is_new_and_any_other_keeps_its_container(
    laptop: Path, fault: str, nodes_kept: list[str], counted: list[tuple[str, str]]
) -> None:
    ended = starts_twice(laptop, fault)
    assert ended.code == 0, ended.output
    left = laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/left")
    assert sorted(path.parents[2].name for path in left) == nodes_kept
    environs = environments(laptop)
    counts = [(environs[rank]["MA_SCHEDULE_CNT"], environs[rank]["MA_PROC_START_CNT"]) for rank in range(4)]
    assert counts == counted
    hosts = [f"127.{int(counts[2 * node][0]) - 1}.0.{node + 1}" for node in (0, 1)]
    tables = [json.loads(Path(e["RANK_TABLE_FILE"]).read_text()) for e in environs.values()]
    assert all([server["server_id"] for server in table["server_list"]] == hosts for table in tables)
    assert environs[0]["VC_WORKER_HOSTS"] == ",".join(hosts)


SPEAKS_TO_OBS = """
import os, boto3, path_mapping as mox
mox.file.copy_parallel("obs://bucket/data/", "here")
client = boto3.client("s3", endpoint_url=os.environ["OBS_ENDPOINT"], region_name="x",
    aws_access_key_id=os.environ["OBS_ACCESS_KEY_ID"], aws_secret_access_key=os.environ["OBS_SECRET_ACCESS_KEY"])
client.put_object(Bucket="bucket", Key="from-boto3", Body=open("here/x", "rb").read())
assert os.environ["no_proxy"] == "example.com,127.0.0.1", os.environ["no_proxy"]
"""


def test_training_code_that_talks_to_obs_runs_unchanged_and_not_with_the_users_own_obs(laptop: Path) -> None:
    (laptop / "project" / "train.py").write_text(SPEAKS_TO_OBS)
    keys = {"OBS_ACCESS_KEY_ID": "a", "OBS_SECRET_ACCESS_KEY": "b", "OBS_SECURITY_TOKEN": "c"}
    away = {"OBS_CREDENTIALS_FILE": "/none", "http_proxy": "http://127.0.0.1:9", "no_proxy": "example.com"}
    served = ["--python", sys.executable, "--obs-root", "obs", "project/train.py"]
    ended = end(start(laptop, *served, more={**keys, **away}))
    assert ended.code == 0, ended.output
    assert (laptop / "obs" / "bucket" / "from-boto3").read_text() == "input"


def test_a_full_disk_does_not_change_how_the_job_ended(laptop: Path) -> None:
    """A full disk leaves half an event, and no space for the verdicts."""
    (laptop / "project" / "train.py").write_text(
        "import os, pathlib, sys\n"
        "log = pathlib.Path(os.environ['MA_LOG_DIR'])\n"
        "(log.parents[4] / 'verdicts.json').mkdir()\n"
        "with next(log.glob('*-events.jsonl')).open('a') as events: events.write('{half')\n"
        "sys.exit(3)\n"
    )
    ended = rehearse(laptop, "--fault", "stop at=10m", "project/train.py")
    assert ended.code == 1, ended.output  # of the fault that did not come
    assert ended.output.splitlines()[-1].endswith("; the job's own exit code is 3")
    assert "verdicts.json: Is a directory" in ended.output


def test_a_fault_of_an_object_with_a_name_that_is_not_ascii(laptop: Path) -> None:
    (laptop / "obs" / "bucket" / "data" / "火").write_text("x")
    fault = ["--fault", "obs-expired key=data/火"]
    ended = with_fault(laptop, *MAPPING, *fault, "project/train.py")
    assert ended.code == 69, ended.output
    assert verdicts(laptop)[0]["wrong"] == []


def test_inputs_and_outputs_of_the_job_form_of_all_nodes_and_what_is_appended(laptop: Path) -> None:
    form = ["--input", "data_url=obs://bucket/data/", "--input", "more@env=obs://bucket/data/"]
    form += ["--output", "train_url=obs://bucket/from-form", "--append-args", "--lr=0.1 --name='a b'"]
    (laptop / "project" / "train.py").write_text(
        "import os, sys, pathlib\n"
        "names = dict(a.lstrip('-').split('=', 1) for a in sys.argv[1:])\n"
        "print(names, os.environ['more'])\n"
        "text = pathlib.Path(names['data_url'], 'x').read_text() + pathlib.Path(os.environ['more'], 'x').read_text()\n"
        "out = pathlib.Path(names['train_url'], os.environ['RANK_ID'])\n"
        "out.write_text(text + names['lr'] + names['name'])\n"
    )
    ended = rehearse(laptop, "--nodes", "2", "--obs-root", "obs", *form, "project/train.py")
    assert ended.code == 0, ended.output
    assert "/home/ma-user/modelarts/inputs/data_url_0" in ended.output
    place = laptop / "obs" / "bucket" / "from-form"
    assert {path.name: path.read_text() for path in place.iterdir()} == dict.fromkeys(
        "01", "inputinput0.1a b"
    )


def test_a_stop_during_the_platforms_last_upload_ends_it(laptop: Path, obs: MemoryObs) -> None:
    """Else a request without an answer would hold up the rehearsal for `--upload-timeout`, 10 minutes."""
    obs.faults.append(obs_fault("hang", "PUT"))
    (laptop / "project" / "train.py").write_text(
        "import pathlib, sys\npathlib.Path(sys.argv[1].partition('=')[2], 'x').write_text('x')\n"
    )
    reachable = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    running = start(laptop, "--output", "train_url=obs://bucket/out/", "project/train.py", more=reachable)
    eventually(lambda: any(method == "PUT" for method, _ in obs.requests), "the last upload")
    running.send_signal(signal.SIGTERM)
    ended = end(running)
    assert ended.code == 143, ended.output


@pytest.mark.parametrize(("grace", "deaf", "code"), [("1s", True, -signal.SIGKILL), ("20s", False, 0)])
def test_a_stopped_node_is_killed_after_its_grace_period(
    tmp_path: Path, grace: str, deaf: bool, code: int
) -> None:
    """A node that ends within it is not killed; the default of 30 s counts only without one."""
    ends = "lambda *_: None" if deaf else "lambda *_: (time.sleep(2), sys.exit(0))"
    program = f"import signal, sys, time; signal.signal(15, {ends}); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        (fault,) = parse_faults([f"stop node=0 grace={grace}"], 1, 1)
        watch = Watch(SimulatedJob("none", str(tmp_path), 1, 1), [0], LocalProcesses())
        watch.state = JobState(1, {0: StartedNode(node.pid, time.monotonic(), 0)})
        cancel = threading.Event()
        run = Injector([fault], lambda *_: None).run
        injector = threading.Thread(target=run, args=(watch, cancel))
        injector.start()
        try:
            assert node.wait(20) == code
        finally:
            cancel.set()
            injector.join()
            node.kill()


ABSOLUTE = "PATH_MAPPING_CONFIG = {'input': {'/cache/data': 'obs://bucket/data/'}, 'output': {'/cache/out': 'obs://bucket/out/'}}"


def test_absolute_paths_are_rerooted_and_the_rehearsal_says_which(laptop: Path) -> None:
    (laptop / "project" / "mapping.py").write_text(ABSOLUTE)
    ended = rehearse(laptop, *MAPPING, "project/train.py", "write:../../cache/out/RANK:x")
    assert ended.code == 0, ended.output
    assert "/cache/data is NODE/cache/data" in ended.output
    assert list(laptop.glob("ma_boot-rehearsal/*/node-0/cache/data/x"))
    assert (laptop / "obs" / "bucket" / "out" / "0").read_text() == "x"


@needs_bwrap
def test_bubblewrap_shows_the_platforms_paths_and_user(laptop: Path) -> None:
    (laptop / "project" / "mapping.py").write_text(ABSOLUTE)
    (laptop / "project" / "train.py").write_text(
        "import os, pathlib\n"
        "print(os.getcwd(), os.getuid(), os.getgid(), os.environ['MA_HOME'], sorted(os.listdir('/user/config')))\n"
        "pathlib.Path('/cache/out').mkdir(exist_ok=True)\n"
        "pathlib.Path('/cache/out', os.environ['RANK_ID']).write_text(pathlib.Path('/cache/data/x').read_text())\n"
    )
    ended = rehearse(laptop, "--nodes", "2", *MAPPING, "--sandbox", "bwrap", "project/train.py")
    assert ended.code == 0, ended.output
    assert "/home/ma-user 1000 100 /home/ma-user ['jobstart_hccl.json']" in ended.output
    assert (laptop / "obs" / "bucket" / "out" / "1").read_text() == "input"
    assert "is NODE" not in ended.output


@needs_bwrap
def test_the_lines_of_a_rank_in_a_sandbox_are_counted(laptop: Path) -> None:
    fault = ["--sandbox", "bwrap", "--fault", "kill rank=0 line=2"]
    ended = with_fault(laptop, *fault, "project/train.py", "print:one", "print:two", "sleep")
    assert ended.code == 137, ended.output
    assert verdicts(laptop)[0]["wrong"] == []


@needs_bwrap
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_reaches_the_node_in_its_sandbox_once(laptop: Path, signum: int, code: int) -> None:
    words = ["--sandbox", "bwrap", "project/train.py", "write:out/RANK:x", "print:y", "sleep"]
    running = start(laptop, *SHAPE, *MAPPING, *words)
    stopped_with_outputs(laptop, running, signum, code)
    assert [event["node"] for event in node_events(laptop, "stop")] == [0, 1]


@needs_bwrap
def test_a_sigkill_of_the_rehearsal_leaves_no_sandbox_behind(laptop: Path) -> None:
    running = start(
        laptop, "--sandbox", "bwrap", "project/train.py", f"ready:{laptop}/ready", "deaf", "sleep"
    )
    rank = eventually(lambda: next(laptop.glob("ready.*"), None), "the rank")
    pid = eventually(rank.read_text, "its pid")
    running.kill()
    end(running)
    eventually(lambda: not alive(int(pid)), "the rank is gone")
