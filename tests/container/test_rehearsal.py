"""`ma_boot --local --runner docker`: whole jobs in containers of an image built from our Dockerfile."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import pytest

from path_mapping.stores.open_store import open_store
from tests.conftest import CREDENTIALS
from tests.container.conftest import ROOT, SESSION, Built
from tests.functional.frameworks.checkpoint_jobs import complete_checkpoints
from tests.functional.node import eventually
from tests.mindspore_end import again_after_a_crash
from tests.obs import MemoryObs

RANK = ROOT / "tests" / "functional" / "programs" / "rank.py"
EXAMPLE = ROOT / "examples" / "mindspore_cpu"
MAPPING = {"input": {"data": "obs://bucket/data/"}, "output": {"out": "obs://bucket/out/"}}
WITH_OBS = ["--path-mapping", "project/mapping.py", "--obs-root", "obs"]
LOOK = """
import json, os, socket
hosts = os.environ["VC_WORKER_HOSTS"].split(",")
first = os.environ["VC_TASK_INDEX"] == "0"
peers = []  # names resolve only while their node runs: so all meet at the first one
if first:
    with socket.create_server(("", 5000)) as server:
        peers = [server.accept()[0] for host in hosts[1:]]
while not first and not peers:
    try:
        peers.append(socket.create_connection((hosts[0], 5000)))
    except OSError:
        continue
for place in ("/cache", "/home/ma-user/modelarts/outputs", os.environ["WORKSPACE"], "."):
    with open(os.path.join(place, "written"), "w") as file:
        file.write("x")
seen = {
    "uid": os.getuid(), "gid": os.getgid(), "cwd": os.getcwd(), "home": os.environ["HOME"],
    "name": socket.gethostname(), "hosts": hosts, "own": os.environ["MA_CURRENT_IP"],
    "addresses": [socket.gethostbyname(host) for host in hosts],
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
}
print("seen", json.dumps(seen), flush=True)
for peer in peers:
    peer.sendall(b"x")
    peer.recv(1)
"""
OF_A_FORM = """
import os, sys
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
text = open(os.path.join(given["data_url"], "x")).read()
with open(os.path.join(os.environ["train_url"], os.environ["RANK_ID"]), "w") as file:
    file.write(text)
print("of the form", " ".join(sys.argv[1:]), os.environ["train_url"], flush=True)
"""
OF_A_JOB_FILE = """
command: project/form.py
nodes: 2
inputs:
  data_url: obs://bucket/data/
outputs:
  train_url@env: obs://bucket/out/
parameters:
  lr: 0.10
"""
RANKS = """
import json, os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "RANK_TABLE_FILE")
print("ranks", json.dumps({name: os.environ.get(name) for name in names}), flush=True)
"""


@dataclass
class Laptop:
    """A directory with a training script, a mapping and an OBS directory, and the rehearsals started there."""

    root: Path
    engine: Any
    image: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, *arguments: str, image: str | None = None, more: dict[str, str] | None = None
    ) -> Rehearsing:
        """Starts a rehearsal, as a user does."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        argv = [
            "--local",
            "-v",
            "--runner",
            "docker",
            "--image",
            image or self.image,
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "ma_boot", *argv, *arguments],
            cwd=self.root,
            env={**kept, **(more or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            umask=0o077,  # a strict umask, as some users have: the nodes run as another user
        )
        self.started.append(process)
        return Rehearsing(process)

    def rehearse(self, *arguments: str, image: str | None = None, **more: Any) -> Rehearsing:
        """Runs a rehearsal to its end."""
        running = self.start(*arguments, image=image, **more)
        running.end()
        return running

    def made(self) -> list[str]:
        """The names of what rehearsals in this directory have on the engine."""
        return [str(thing.name) for thing in self.things()]

    def remove(self) -> None:
        """Removes that, after a failed test."""
        for thing in self.things():  # containers before the network that they are on
            thing.remove(force=True, v=True) if hasattr(thing, "exec_run") else thing.remove()

    def things(self) -> list[Any]:
        names = tuple(f"ma_boot-{path.name[-8:]}" for path in self.root.glob("ma_boot-rehearsal/ma-job-*"))
        label = {"label": "ma_boot=rehearsal"}
        containers = self.engine.containers.list(all=True, filters=label, ignore_removed=True)
        networks = self.engine.networks.list(filters=label)
        return [thing for thing in (*containers, *networks) if str(thing.name).startswith(names)]

    def outputs(self) -> list[str]:
        """The objects below obs://bucket/out/."""
        return sorted(path.name for path in (self.root / "obs" / "bucket" / "out").glob("*"))


@dataclass
class Rehearsing:
    """A rehearsal, running or ended."""

    process: subprocess.Popen[bytes]
    output: str = ""

    @property
    def code(self) -> int:
        """Its exit code, once it has ended."""
        assert self.process.returncode is not None
        return self.process.returncode

    def read_until(self, text: str, times: int = 1) -> None:
        """Reads the output until the text has appeared so many times."""
        assert self.process.stdout is not None
        while self.output.count(text) < times:
            line = self.process.stdout.readline()
            assert line, f"ended without {text!r}:\n{self.output}"
            self.output += line.decode()

    def end(self) -> None:
        """Waits for the end."""
        output, _ = self.process.communicate(timeout=600)
        self.output += output.decode()
        assert "Traceback" not in self.output, self.output


@pytest.fixture
def laptop(tmp_path: Path, engine: Any, good: Built) -> Iterator[Laptop]:
    """A place to rehearse in; a test fails if it leaves something on the engine."""
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(RANK, project / "train.py")
    (project / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {MAPPING!r}\n")
    (project / "look.py").write_text(LOOK)
    (tmp_path / "obs" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "obs" / "bucket" / "data" / "x").write_text("input")
    laptop = Laptop(tmp_path, engine, good.tag)
    yield laptop
    for process in laptop.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    try:
        eventually(lambda: not laptop.made(), "nothing is left")
    finally:
        laptop.remove()


@pytest.mark.timeout(400)
def test_eight_ranks_on_two_nodes_train_and_their_checkpoints_arrive(laptop: Laptop, on_conda: Built) -> None:
    images = laptop.root / "obs" / "ma-boot-example" / "cifar-10-batches-bin"
    images.mkdir(parents=True)
    dice = random.Random(0)
    records = [bytes([dice.randrange(10)]) + dice.randbytes(3 * 32 * 32) for _ in range(320)]
    (images / "data_batch_1.bin").write_bytes(b"".join(records))
    arguments = [
        "--nodes", "2", "--devices-per-node", "4", "--rendezvous", "mindspore",
        "--path-mapping", str(EXAMPLE / "path_mapping_config.py"), "--obs-root", "obs",
        str(EXAMPLE / "train.py"), "--data", "data", "--checkpoints", "checkpoints",
        "--batch-size", "20", "--epochs", "1",
    ]  # fmt: skip
    ended = again_after_a_crash(
        lambda: laptop.rehearse(*arguments, image=on_conda.tag), "parameters equal on all 8 ranks"
    )
    assert ended.code == 0, ended.output
    assert ended.output.count("parameters equal on all 8 ranks") == 8
    checkpoints = laptop.root / "obs" / "ma-boot-example" / "checkpoints"
    (newest,) = complete_checkpoints(checkpoints)
    assert sorted(newest["files"]) == [f"rank_{rank}/cnn-1_2.ckpt" for rank in range(8)]
    assert all(path.stat().st_size for path in newest["files"].values())
    assert {path.stat().st_uid for path in checkpoints.rglob("*")} == {os.getuid()}


def test_a_node_looks_as_on_the_platform(laptop: Laptop) -> None:
    ended = laptop.rehearse("--nodes", "2", "project/look.py", more={"MABOOT_SHM_SIZE": "64m"})
    assert ended.code == 0, ended.output
    lines = [line.partition(" seen ") for line in ended.output.splitlines() if " seen " in line]
    by_node = sorted((json.loads(line[2]) for line in lines), key=lambda seen: str(seen["name"]))
    assert len(by_node) == 2
    for node, seen in enumerate(by_node):
        assert (seen["uid"], seen["gid"]) == (1000, 100)
        assert seen["cwd"] == seen["home"] == "/home/ma-user"
        assert seen["name"].endswith(f"-worker-{node}")
        assert seen["hosts"][node] == f"{seen['name']}.{seen['name'][: -len('-worker-0')]}"
        assert seen["addresses"][node] == seen["own"]
        assert seen["shm"] == 64 << 20
    [job] = laptop.root.glob("ma_boot-rehearsal/ma-job-*")
    for name in ("node-0", "node-1"):
        assert (job / name / "cache" / "written").exists()
        assert (job / name / "home/ma-user/modelarts/user-job-dir/project/written").exists()
        assert list((job / name / "home/ma-user/modelarts/log").glob("*-proc-rank-*"))
    assert len(list((job / "log").glob("*-worker-*.log"))) == 2


def test_ranks_in_containers_see_the_same_on_every_platform(laptop: Laptop) -> None:
    (laptop.root / "project" / "ranks.py").write_text(RANKS)
    seen = {}
    for platform, shown in (
        ("modelarts", "ModelArts on Volcano"),
        ("volcano", "Volcano"),
        ("mindcluster", "MindCluster"),
    ):
        shape = ["--nodes", "2", "--devices-per-node", "2", "--rendezvous", "torch"]
        ended = laptop.rehearse("--platform", platform, *shape, "project/ranks.py")
        assert ended.code == 0, ended.output
        assert ended.output.count(f"[ma_boot] platform: {shown} \n") == 2
        lines = [line.partition(" ranks ")[2] for line in ended.output.splitlines() if " ranks {" in line]
        assert len(lines) == 4, ended.output
        seen[platform] = sorted(lines)
    assert seen["volcano"] == seen["mindcluster"] == seen["modelarts"]


HANGS = """
import faulthandler, os, signal, time
faulthandler.register(signal.SIGUSR1)
def all_reduce(): time.sleep(600)
def next_batch(): time.sleep(600)
next_batch() if os.environ["RANK_ID"] == "3" else all_reduce()
"""


def test_nodes_in_containers_report_hangs_and_failures_to_each_other(laptop: Laptop) -> None:
    (laptop.root / "project" / "hangs.py").write_text(HANGS)
    shape = ["--nodes", "2", "--devices-per-node", "2"]
    hung = laptop.rehearse(*shape, "--hang-timeout", "4", "--hang-action", "stop", "project/hangs.py")
    cause = "the job's cause: node 1, rank 3: it hung: "
    assert hung.output.count(cause) == 2, hung.output
    failed = laptop.rehearse(*shape, "project/train.py", "exit:7:3", "sleep")
    assert failed.output.count("the job's cause: node 1, rank 3 ended with exit code 7") == 2, failed.output
    assert failed.code == 7
    assert "exit code 7: node 1, rank 3 ended with exit code 7" in failed.output.splitlines()[-1]
    assert laptop.made() == []


@pytest.mark.parametrize("is_real", [False, True])
def test_the_inputs_and_outputs_of_a_job_file(laptop: Laptop, obs: MemoryObs, is_real: bool) -> None:
    """The platform moves them, so the nodes need no way to OBS, and no keys."""
    (laptop.root / "project" / "form.py").write_text(OF_A_FORM)
    (laptop.root / "job.yaml").write_text(OF_A_JOB_FILE)
    if is_real:
        (laptop.root / "put").write_text("input")
        store = open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        store.write(
            "bucket", "data/x", laptop.root / "put", hashlib.md5(b"input").hexdigest(), lambda sent: None
        )
        more = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
        ended = laptop.rehearse("--job", "job.yaml", more=more)
        stored = {key: b"".join(store.read("bucket", key)).decode() for key in ("out/0", "out/1")}
    else:
        ended = laptop.rehearse("--obs-root", "obs", "--job", "job.yaml")
        place = laptop.root / "obs" / "bucket"
        stored = {key: (place / key).read_text() for key in ("out/0", "out/1")}
    assert ended.code == 0, ended.output
    assert stored == {"out/0": "input", "out/1": "input"}
    places = "--data_url=/home/ma-user/modelarts/inputs/data_url_0 --lr=0.10 /home/ma-user/modelarts/outputs/train_url_0"
    assert ended.output.count(f"of the form {places}") == 2


def test_the_rank_table_arrives_late_and_in_pieces(laptop: Laptop) -> None:
    ended = laptop.rehearse("project/train.py", "print:hi", more={"MABOOT_RANK_TABLE_DELAY": "9"})
    assert ended.code == 0, ended.output
    for reason in ("does not exist yet", 'status is "initializing"', "not complete JSON ("):
        assert reason in ended.output
    assert "[node 0] [rank 0] hi" in ended.output


def test_a_stop_uploads_the_outputs_and_leaves_nothing(laptop: Laptop) -> None:
    words = ["write:out/RANK:x", "print:up", "sleep"]
    running = laptop.start("--nodes", "2", *WITH_OBS, "project/train.py", *words)
    running.read_until("] up\n", times=2)
    running.process.send_signal(signal.SIGINT)
    running.end()
    assert running.code == 130, running.output
    assert laptop.outputs() == ["0", "1"]
    assert laptop.made() == []


def test_the_boot_command_of_the_job_form_by_a_shell(laptop: Laptop) -> None:
    words = ["write:out/RANK:x", "print:up", "sleep"]
    running = laptop.start(*WITH_OBS, "project/train.py", *words, more={"MABOOT_BOOT_PREFIX": "cd . && exec"})
    running.read_until("] up\n")
    running.process.send_signal(signal.SIGTERM)
    running.end()
    assert running.code == 143, running.output
    assert laptop.outputs() == ["0"]
    shell = {"MABOOT_BOOT_PREFIX": "cd . &&", "MABOOT_BOOT_SHELL": "sh"}
    ended = laptop.rehearse("project/train.py", "print:hi", more=shell)
    assert ended.code == 0, ended.output
    assert "a stop of the job will not reach ma_boot" in ended.output


def test_a_stop_while_the_nodes_are_created(laptop: Laptop) -> None:
    running = laptop.start("--nodes", "2", "project/train.py", "sleep")
    eventually(laptop.made, "the first container or network")
    running.process.send_signal(signal.SIGINT)
    running.end()
    assert running.code == 130, running.output
    assert laptop.made() == []


def test_a_sigkill_while_the_ranks_run_leaves_nothing(laptop: Laptop) -> None:
    running = laptop.start("--nodes", "2", *WITH_OBS, "project/train.py", "deaf", "print:up", "sleep")
    running.read_until("] up\n", times=2)
    assert len(laptop.made()) == 4
    running.process.kill()
    running.end()  # the guard, too, holds standard output open until it is done
    assert laptop.made() == []


@pytest.mark.parametrize("made", [1, 3])
def test_a_sigkill_while_the_nodes_are_created_leaves_nothing(laptop: Laptop, made: int) -> None:
    running = laptop.start("--nodes", "3", "project/train.py", "sleep")
    eventually(lambda: len(laptop.made()) >= made, f"{made} containers and networks")
    running.process.kill()
    running.end()
    assert laptop.made() == []


def test_without_its_guard_a_rehearsal_cleans_up_itself(laptop: Laptop) -> None:
    running = laptop.start("project/train.py", "print:up", "sleep")
    running.read_until("] up\n")
    started = f"/proc/{running.process.pid}/task/{running.process.pid}/children"
    children = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in Path(started).read_text().split()}
    [guard] = [
        int(pid) for pid, line in children.items() if b"ma_boot.desk.rehearsal.containers\0guard" in line
    ]
    os.kill(guard, signal.SIGKILL)
    running.process.send_signal(signal.SIGTERM)
    running.end()
    assert running.code == 143, running.output
    assert "RuntimeWarning" not in running.output
    assert laptop.made() == []


def test_keep_leaves_everything_and_prints_how_to_inspect_it(laptop: Laptop) -> None:
    words = ["write:out/RANK:x", "exit:9:1"]
    ended = laptop.rehearse("--nodes", "2", *WITH_OBS, "project/train.py", *words, more={"MABOOT_KEEP": "1"})
    assert ended.code == 9, ended.output
    assert len(laptop.made()) == 4
    lines = ended.output.partition("[ma_boot] kept:")[2].splitlines()
    advice = {what.strip(): command.strip() for what, _, command in (line.partition(": ") for line in lines)}
    assert "/home/ma-user/out" in _shell(advice["[ma_boot]   its changed files"])
    assert "exit code 0: success" in _shell(advice["[ma_boot]   boot it again"])
    _shell(advice["[ma_boot]   remove all"])
    assert laptop.made() == []


def _shell(command: str) -> str:
    """The output of the line when a user pastes it."""
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_rank_beyond_the_nodes_memory_is_reported_as_oom_killed(laptop: Laptop) -> None:
    ended = laptop.rehearse("project/train.py", "eat:0", more={"MABOOT_MEMORY": "300m"})
    assert ended.code == 137, ended.output
    assert "out of memory" in ended.output.splitlines()[-1]
    assert "300 MiB" in ended.output.splitlines()[-1]


FAULTS = [
    # faults, arguments, the exit code, and a part of the output
    (["kill rank=1 signal=SEGV"], ["sleep"], 139, "node 0, rank 1 "),
    (["hang rank=0 for=1s", "kill rank=1 at=3s"], ["sleep"], 137, "fault: hang rank=0 for=1s"),
    (["lost node=1 phase=run"], ["sleep"], 137, "node 1 "),
    (["stop node=1 phase=run"], ["sleep"], 143, "node 1"),
    (["stop phase=run grace=2s"], ["deaf", "sleep"], 143, "stopped by SIGTERM"),
    (["table-lacks pod=1 for=3s"], ["print:up"], 0, "fault: table-lacks pod=1 for=3s"),
    (["absent node=1"], ["print:up"], 75, "rank table"),
]  # fmt: skip


@pytest.mark.parametrize(("faults", "words", "code", "message"), FAULTS, ids=[row[0][0] for row in FAULTS])
def test_faults_in_containers(
    laptop: Laptop, faults: list[str], words: list[str], code: int, message: str
) -> None:
    options = [word for fault in faults for word in ("--fault", fault)]
    shape = ["--nodes", "2", "--devices-per-node", "2", "--rank-table-timeout", "20"]
    ended = laptop.rehearse(*shape, *options, "project/train.py", *words)
    assert ended.code == code, ended.output
    assert message in ended.output, ended.output
    [verdicts] = laptop.root.glob("ma_boot-rehearsal/*/verdicts.json")
    assert [(verdict["came"], verdict["wrong"]) for verdict in json.loads(verdicts.read_text())] == [
        (True, []) for _ in faults
    ]
    assert laptop.made() == []


def test_faults_that_containers_cannot_have(laptop: Laptop) -> None:
    ended = laptop.rehearse("--fault", "obs-503", "--fault", "restart", "project/train.py")
    assert ended.code == 64, ended.output
    assert "--fault 'obs-503': expected without --runner docker" in ended.output
    assert "--fault 'restart': expected without --runner docker: each container starts once" in ended.output


def test_a_script_may_be_in_the_image(laptop: Laptop, derived: Callable[..., str]) -> None:
    image = derived("with-code", """RUN echo 'print("baked in")' >/home/ma-user/code/in_image.py""")
    ended = laptop.rehearse("/home/ma-user/code/in_image.py", image=image)
    assert ended.code == 0, ended.output
    assert "baked in" in ended.output


def test_no_engine_answers(laptop: Laptop) -> None:
    ended = laptop.rehearse("project/train.py", more={"DOCKER_HOST": f"unix://{laptop.root}/none"})
    assert ended.code == 69, ended.output
    assert "no container engine answers" in ended.output


def test_a_missing_image(laptop: Laptop) -> None:
    ended = laptop.rehearse("project/train.py", image="ma-boot-test/not-here")
    assert ended.code == 66, ended.output
    assert "no such image: ma-boot-test/not-here" in ended.output
    assert not (laptop.root / "ma_boot-rehearsal").exists()


def test_an_image_for_other_processors(laptop: Laptop, foreign: str) -> None:
    ended = laptop.rehearse("project/train.py", image=foreign)
    assert ended.code == 78, ended.output
    assert "is for riscv64, but the engine runs on" in ended.output
    assert "ma_boot image build --platform linux/" in ended.output


@pytest.fixture
def foreign(engine: Any) -> Iterator[str]:
    """An image for another processor architecture, as `docker save` would write it."""
    tag = f"{SESSION}/foreign:latest"
    layer = _archive({"bin/ma_boot": b"\x7fELF" + b"\0" * 60})
    config = {
        "architecture": "riscv64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    engine.images.load(_archive({**files, "layer.tar": layer}))
    yield tag
    engine.images.remove(tag, force=True)


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize("options", [[], ["--obs-root", "obs"]])
def test_an_image_without_the_toolkit(laptop: Laptop, plain: str, options: list[str]) -> None:
    ended = laptop.rehearse(*options, "project/train.py", image=plain)
    assert ended.code == 127, ended.output
    assert "ma_boot image build" in ended.output
    assert laptop.made() == []


def test_another_ma_boot_of_the_image_is_not_rehearsed(laptop: Laptop, derived: Callable[..., str]) -> None:
    another = (
        "printf '#!/bin/sh\\necho trained\\n' >/usr/local/sbin/ma_boot && chmod 755 /usr/local/sbin/ma_boot"
    )
    ended = laptop.rehearse(
        "project/train.py", image=derived("another", f"USER root\nRUN {another}\nUSER 1000")
    )
    assert ended.code == 78, ended.output
    assert "its ma_boot is another program; it answers 'trained" in ended.output
    assert laptop.made() == []


def test_a_closed_directory_of_the_image_is_closed_in_the_rehearsal(
    laptop: Laptop, derived: Callable[..., str]
) -> None:
    image = derived("closed", "USER root\nRUN mkdir -m 700 /home/ma-user/modelarts\nUSER 1000")
    ended = laptop.rehearse("project/train.py", "print:hi", image=image)
    assert ended.code == 73, ended.output
    assert "MA_LOG_DIR names it, and uid 1000 must be able to enter" in ended.output


def test_a_mapping_outside_the_project(laptop: Laptop) -> None:
    shutil.move(str(laptop.root / "project" / "mapping.py"), str(laptop.root / "mapping.py"))
    ended = laptop.rehearse("--path-mapping", "mapping.py", "project/train.py")
    assert ended.code == 78, ended.output
    assert "--code-dir" in ended.output
