"""`ma_boot job manifest`: the pods that it describes boot the ranks of the rehearsal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ma_boot.platform.rank_table import WRITERS
from path_mapping.stores.open_store import open_store
from tests.conftest import CREDENTIALS
from tests.functional.job.conftest import Desk

TRAIN = """
import json, os, sys
names = ("RANK_ID", "RANK_SIZE", "DEVICE_ID", "LOCAL_RANK", "GREETING")
where = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
rank = {"argv": sys.argv[1:], "input": open(os.path.join(where["data_url"], "x")).read()}
print(json.dumps({**rank, **{name: os.environ[name] for name in names}}), flush=True)
with open(os.path.join(os.environ["train_url"], os.environ["RANK_ID"]), "w") as file:
    file.write("done")
"""
JOB = """\
name: first
image: swr.cn-north-4.myhuaweicloud.com/vision/resnet:1
command: [train.py, "--price=$(NONE)$$"]
nodes: 2
devices-per-node: 2
code-url: obs://bucket/jobs/
inputs: {data_url: obs://bucket/data/}
outputs: {"train_url@env": obs://bucket/out/}
parameters: {lr: 0.10}
environment: {GREETING: "hello, $(USER)"}
secrets: [OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY]
"""
NODES, DEVICES = 2, 2


def ranks(output: str) -> dict[str, Any]:
    """What each rank says of itself, without the directory of its run."""
    ranks = {}
    for line in output.splitlines():
        match = re.search(r"\[rank \d\] (\{.*\})$", line)
        if match:
            rank = json.loads(re.sub(r'=[^" ]*/modelarts/', "=/modelarts/", match[1]))
            ranks[rank["RANK_ID"]] = rank
    return ranks


@pytest.mark.invariant("A cluster runs the rehearsed job")
@pytest.mark.parametrize("platform", ["volcano", "mindcluster"])
def test_the_pods_boot_the_ranks_of_the_rehearsal(desk: Desk, platform: str) -> None:
    (desk.project / "train.py").write_text(TRAIN)
    (desk.project / "job.yaml").write_text(JOB)
    desk.put_input()
    rehearsed = ranks(desk.rehearsed("--platform", platform))
    assert sorted(rehearsed) == ["0", "1", "2", "3"]
    of_server = ["--schedule-policy", "chip8-node8"] if platform == "mindcluster" else []
    done = desk.job("manifest", "job.yaml", "--platform", platform, "--upload", *of_server)
    assert done.code == 0, done.err
    assert "kubectl create secret generic first-secrets" in done.err
    assert "before each apply: kubectl create secret generic first-job-token" in done.err
    pods = Pods(list(yaml.safe_load_all(done.out)), desk.project.parent / "cluster", platform)
    outputs = pods.run()
    assert ranks("\n".join(outputs)) == rehearsed
    assert all("scheduled 3 times (VC_JOB_RETRY_COUNT + 1)" in of_pod for of_pod in outputs[-NODES:])
    keys = sorted(object.key for object in open_store(desk.environ, None).list("bucket", "out/"))
    assert keys == ["out/0", "out/1", "out/2", "out/3"]


def test_a_job_without_a_manifest_leaves_no_file(desk: Desk) -> None:
    (desk.project / "train.py").write_text(TRAIN)
    (desk.project / "job.yaml").write_text(JOB)
    words = ("manifest", "job.yaml", "--platform", "volcano", "--output", "made.yaml")
    refused = desk.job(*words, "--set", "name=a b")
    assert (refused.code, refused.out) == (78, "")
    assert not (desk.project / "made.yaml").exists()
    made = desk.job(*words)
    assert (made.code, made.out) == (0, "")
    assert list(yaml.safe_load_all((desk.project / "made.yaml").read_text()))[-1]["kind"] == "Job"


def test_mindcluster_needs_the_kind_of_server(desk: Desk) -> None:
    (desk.project / "train.py").write_text(TRAIN)
    (desk.project / "job.yaml").write_text(JOB)
    done = desk.job("manifest", "job.yaml", "--platform", "mindcluster", "--schedule-policy", "x")
    assert (done.code, done.out) == (78, "")
    assert "--schedule-policy: found x, expected that of your servers: " in done.err
    assert "chip8-node8: Atlas 800T A2" in done.err


def test_a_pod_at_its_time_limit_ends_by_the_code_of_the_policy_that_ends_the_job(desk: Desk) -> None:
    (desk.project / "train.py").write_text("import time\ntime.sleep(100)")
    (desk.project / "job.yaml").write_text(f"{JOB}time-limit: 1h\nretries: 1\n")
    done = desk.job("manifest", "job.yaml", "--platform", "volcano")
    spec = list(yaml.safe_load_all(done.out))[-1]["spec"]
    command = spec["tasks"][0]["template"]["spec"]["containers"][0]["command"]
    boot = [sys.executable, "-m", "ma_boot", "--rendezvous", "torch", "train.py"]
    words = [*command[: command.index("1h")], "3", *boot]
    environ = {**desk.environ, "MA_LOG_DIR": str(desk.project.parent / "log")}
    ended = subprocess.run(words, cwd=desk.project, env=environ, capture_output=True, timeout=60, check=False)
    assert {"exitCode": ended.returncode, "action": "TerminateJob"} == spec["policies"][0], ended.stdout


class Pods:
    """Runs the containers of a manifest as processes, where kubelet and controllers would."""

    def __init__(self, objects: list[dict[str, Any]], place: Path, platform: str) -> None:
        maps = [object for object in objects if object["kind"] == "ConfigMap"]
        self.maps = {object["metadata"]["name"]: object["data"] for object in maps}
        self.spec = objects[-1]["spec"]["tasks"][0]["template"]["spec"]
        self.place, self.platform = place, platform
        self.secrets = {
            "first-secrets": CREDENTIALS,
            "first-job-token": {"MABOOT_JOB_TOKEN": "9f1c0a2e55d04c7f"},
        }

    def run(self) -> list[str]:
        """Runs all pods at once, each with its initContainers first; returns what they print."""
        for node in range(NODES):
            self._mount(node)
        outputs: list[str] = []
        for container in self.spec["initContainers"]:
            for node in range(NODES):
                ended = self._start(container, node).communicate(timeout=60)
                outputs.append(ended[0].decode())
        started = [self._start(self.spec["containers"][0], node) for node in range(NODES)]
        for process in started:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0, out.decode()
            outputs.append(out.decode())
        return outputs

    def _mount(self, node: int) -> None:
        """The volumes of a pod; the controller has completed the rank table."""
        mounts = {mount["name"]: mount["mountPath"] for mount in self.spec["containers"][0]["volumeMounts"]}
        for volume in self.spec["volumes"]:
            directory = self._root(node) / mounts[volume["name"]][1:]
            directory.mkdir(parents=True)
            for key, text in self.maps.get(volume.get("configMap", {}).get("name"), {}).items():
                complete = volume["name"] == "rank-table"
                (directory / key).write_text(
                    json.dumps(self._table()) if complete else self._here(text, node)
                )

    def _table(self) -> dict[str, Any]:
        document = WRITERS[self.platform].document(NODES, DEVICES)
        for node, server in enumerate(document["server_list"]):
            of_pods = self.platform == "mindcluster"
            server["server_id"] = self._fields(node)["metadata.uid" if of_pods else "status.hostIP"]
        return document

    def _root(self, node: int) -> Path:
        return self.place / f"pod-{node}"

    def _here(self, text: str, node: int) -> str:
        """Paths of the container, below the pod's directory; `$$` as kubelet hands it on."""
        below = re.sub(r"(?<![\w/.])(/home/ma-user|/user/)", rf"{self._root(node)}\1", text)
        return below.replace("$$", "$")

    def _fields(self, node: int) -> dict[str, str]:
        cards = ",".join(f"Ascend910-{card}" for card in range(DEVICES))
        return {
            "status.hostIP": f"10.0.0.{node + 1}",
            "status.podIP": f"172.16.0.{node + 1}",
            "metadata.uid": f"6f1c0a2e-0000-4000-8000-{node:012}",
            "metadata.annotations['volcano.sh/job-retry-count']": "2",
            "metadata.annotations['huawei.com/Ascend910']": cards,
        }

    def _start(self, container: dict[str, Any], node: int) -> subprocess.Popen[bytes]:
        hosts = ",".join(f"first-worker-{number}.first" for number in range(NODES))
        environ = {  # PATH is of the image, VC_* of Volcano's plugins env and svc
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "VC_TASK_INDEX": str(node),
            "VC_WORKER_NUM": str(NODES),
            "VC_WORKER_HOSTS": hosts,
        }
        for variable in container["env"]:
            name, source = variable["name"], variable.get("valueFrom", {})
            if "fieldRef" in source:
                environ[name] = self._fields(node)[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                environ[name] = self.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
            else:
                environ[name] = self._here(variable["value"], node)
        return subprocess.Popen(
            [self._here(word, node) for word in container["command"]],
            cwd=self._root(node) / "home/ma-user",
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
