"""A job of the stand-in: its details, events and logs; it runs as a rehearsal, or as a test says."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.open_store import open_store
from path_mapping.transfer.transfer import download, upload
from path_mapping.workers.retry import RetriedStore

CARDS = {"xlarge": 1, "2xlarge": 2, "4xlarge": 4, "8xlarge": 8, "16xlarge": 16}


def url_of(path: str) -> ObsUrl:
    return ObsUrl.parse("obs:/" + path)


class StandInJob:
    """One job; `phase`, `events`, `stages` and `logs` may be changed by a test."""

    def __init__(self, body: dict[str, Any], place: Path) -> None:
        from tests.job_api.task_log import TaskLog

        self.id, self.body, self.place = str(uuid.uuid4()), body, place
        self.created = int(time.time() * 1000)
        self.phase = "Creating"
        self.task_statuses: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.nodes = int(body["spec"]["resource"]["node_count"])
        self.logs = {f"worker-{node}": TaskLog() for node in range(self.nodes)}
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def say(self, message: str, level: str = "Info") -> None:
        self.events.append(
            {"time": f"{len(self.events)}", "level": level, "message": message, "source": "Job"}
        )

    @property
    def workspace(self) -> str:
        return str(self.body["metadata"].get("workspace_id", "0"))

    def details(self) -> dict[str, Any]:
        metadata = {**self.body["metadata"], "id": self.id, "create_time": self.created}
        status = {
            "phase": self.phase,
            "secondary_phase": self.phase,
            "duration": int(time.time() * 1000) - self.created,
            "tasks": list(self.logs),
            "task_statuses": self.task_statuses,
            "running_records": self.records,
            "a_field_of_tomorrow": {"x": [1]},
        }
        algorithm = {"environments": self.body["algorithm"].get("environments", {})}
        known = {"metadata": metadata, "status": status, "spec": self.body["spec"]}
        return {"kind": "job", "algorithm": algorithm, **known}

    def stop(self) -> None:
        self.phase, self.stopped = "Terminating", True
        if self.process is None:
            self.phase = "Terminated"
        else:
            self.process.send_signal(signal.SIGTERM)

    def rehearse(self, obs: dict[str, str]) -> None:
        """Runs the job to its end in a thread; `obs` are the variables of the OBS."""
        threading.Thread(target=self._rehearse, args=(obs,), daemon=True).start()

    def _rehearse(self, obs: dict[str, str]) -> None:
        try:
            self._run(obs)
        except Exception as error:
            self.say(f"{error}", "Error")
            self.phase = "Abnormal"

    def _run(self, obs: dict[str, str]) -> None:
        algorithm, spec = self.body["algorithm"], self.body["spec"]
        store = open_store(obs, None)
        code = url_of(algorithm["code_dir"])
        name = code.key.rstrip("/").rpartition("/")[2]
        self.place.mkdir(parents=True)
        routes = [Route(name, code)]
        download(routes, self.place, RetriedStore(store))
        self.say("[worker-0] training started.")
        words = shlex.split(algorithm["command"])
        assert words[:2] == ["exec", "ma_boot"], words
        argv = [sys.executable, "-m", "ma_boot", *self._form(), *words[2:]]
        environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.place), **obs}
        environ.update(algorithm.get("environments", {}))
        with (self.place / "rehearsal.log").open("wb") as output:
            self.process = subprocess.Popen(
                argv, cwd=self.place / name, env=environ, stdout=output, stderr=subprocess.STDOUT
            )
            self.phase = "Running"
            while self.process.poll() is None:
                self._find_logs()
                time.sleep(0.02)
        self._find_logs()
        for log in self.logs.values():
            log.ended = True
        self._end(self.process.returncode)
        if "log_export_path" in spec:
            self._export(store, url_of(spec["log_export_path"]["obs_url"]))
        code_of_job = self.process.returncode
        self.phase = "Terminated" if self.stopped else "Failed" if code_of_job else "Completed"

    def _form(self) -> list[str]:
        """What the platform knows of the job, as options of a rehearsal."""
        algorithm, resource = self.body["algorithm"], self.body["spec"]["resource"]
        cards = CARDS.get(resource["flavor_id"].rpartition(".")[2], 1)
        words = ["--local", "--nodes", str(self.nodes), "--devices-per-node", str(cards)]
        words += ["--rehearsal-dir", str(self.place / "rehearsal"), "--code-dir", "."]
        for kind in ("inputs", "outputs"):
            for channel in algorithm.get(kind, []):
                way = "@env" if channel["access_method"] == "env" else ""
                url = url_of(channel["remote"]["obs"]["obs_url"])
                words += [f"--{kind[:-1]}", f"{channel['name']}{way}={url}"]
        parameters = [f"--{each['name']}={each['value']}" for each in algorithm.get("parameters", [])]
        return [*words, "--append-args", " ".join(parameters)] if parameters else words

    def _find_logs(self) -> None:
        for node in range(self.nodes):
            files = self.place.glob(f"rehearsal/ma-job-*/log/*-worker-{node}.log")
            self.logs[f"worker-{node}"].file = next(files, None)

    def _end(self, code: int) -> None:
        self.say(f"[worker-0] Training finished. Exit code {code}.", "Error" if code else "Info")
        for file in self.place.glob("rehearsal/ma-job-*/log/*-events.jsonl") if code else ():
            for line in file.read_text().splitlines():
                event = json.loads(line)
                if event["kind"] == "job-end" and event["label"]:
                    task = event["label"].replace("node ", "worker-")
                    message = f"Traceback ...\n{event['cause']}\n"
                    self.task_statuses = [{"task": task, "exit_code": code, "message": message}]

    def _export(self, store: Any, url: ObsUrl) -> None:
        """What the platform's log uploader leaves in the log path."""
        for root in self.place.glob("rehearsal/ma-job-*"):
            logs = [root / f"node-{node}" / "home/ma-user/modelarts/log" for node in range(self.nodes)]
            for place in (*logs, root / "log"):
                route = Route(str(place), url)
                upload([route], root, RetriedStore(store))
