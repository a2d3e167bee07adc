"""What was rehearsed is what is submitted: each rank has the same arguments and environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import Any, Dict

from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import open_store
from path_mapping.transfer import upload
from tests.functional.job.conftest import JOB, Desk

TRAIN = """
import json, os, sys
environ = {name: value for name, value in os.environ.items() if not name.startswith("OBS_")}
print(json.dumps({"argv": sys.argv, "cwd": os.getcwd(), "environ": environ}), flush=True)
with open(os.path.join(os.environ["train_url"], os.environ["RANK_ID"]), "w") as file:
    file.write("done")
"""
MORE = """\
inputs: {data_url: obs://bucket/data/}
outputs: {"train_url@env": obs://bucket/out/}
parameters: {lr: 0.10}
environment: {GREETING: "hello, $USER", MABOOT_STOP_TIMEOUT: 7, EMPTY: ""}
secrets: [MY_TOKEN]
"""
OF_ONE_RUN = {"MABOOT_RUN", "MABOOT_SAVE_FILE", "MABOOT_SUBMISSION", "PWD", "OLDPWD", "SHLVL", "_"}


def ranks(output: str) -> Dict[str, Any]:
    """What each rank printed, without what differs from run to run: names, paths and ports."""
    found = {}
    for line in output.splitlines():
        match = re.match(r"(\[node \d\] \[rank \d\]) (\{.*\})$", line)
        if match:
            text = re.sub(r'[^" :=,]*/ma-job-[0-9a-f]{8}/', "SANDBOX/", match[2])
            text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
            told = json.loads(text)
            told["environ"] = {
                name: value for name, value in told["environ"].items() if name not in OF_ONE_RUN
            }
            found[match[1]] = told
    return found


def test_a_rehearsed_and_a_submitted_job_give_each_rank_the_same(desk: Desk) -> None:
    (desk.project / "train.py").write_text(TRAIN)
    job = JOB.replace("train.py print:hello", "train.py --epochs 90 --name 'a b'").replace(
        "torch", "rank-table"
    )
    (desk.project / "job.yaml").write_text(job + MORE)
    (desk.project.parent / "x").write_text("input")
    _put(desk)
    more = {"MY_TOKEN": "a-secret-of-the-shell"}
    local = subprocess.run(
        [sys.executable, "-m", "ma_boot", "--local", "--job", "job.yaml", "--rehearsal-dir", "../local"],
        cwd=desk.project,
        env={**desk.environ, **more},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert local.returncode == 0, local.stdout.decode()
    submitted = desk.job("submit", "job.yaml", "--watch", more=more)
    assert submitted.code == 0, submitted
    rehearsed, run = ranks(local.stdout.decode()), ranks(submitted.out)
    assert len(rehearsed) == 4
    only_here = {*desk.environ} - {"PATH", "HOME"}  # keys for ModelArts, of the shell of the rehearsal
    for label, told in rehearsed.items():
        told["environ"] = {name: value for name, value in told["environ"].items() if name not in only_here}
        assert run[label] == told
    first = run["[node 1] [rank 2]"]
    assert first["argv"][1:5] == ["--epochs", "90", "--name", "a b"]
    assert first["argv"][-1] == "--lr=0.10"
    names = {"RANK_ID": "2", "RANK_SIZE": "4", "GREETING": "hello, $USER", "EMPTY": "", **more}
    assert {name: first["environ"][name] for name in names} == names
    assert first["environ"]["MA_NUM_HOSTS"] == "2"


def _put(desk: Desk) -> None:
    """An object for the input."""
    store = open_store(desk.environ, None)
    route = Route("x", ObsUrl("bucket", "data/x"))
    upload([route], desk.project.parent, store, cancel=threading.Event(), progress=lambda now: None)
