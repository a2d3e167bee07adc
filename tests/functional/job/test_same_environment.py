"""What was rehearsed is what is submitted: each rank has the same arguments and environment."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

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


def ranks(output: str) -> dict[str, Any]:
    """What each rank printed, without what differs from run to run: names, paths and ports."""
    ranks = {}
    for line in output.splitlines():
        match = re.match(r"(\[node \d\] \[rank \d\]) (\{.*\})$", line)
        if match:
            text = re.sub(r'[^" :=,]*/ma-job-[0-9a-f]{8}/', "SANDBOX/", match[2])
            text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
            ranks[match[1]] = without(OF_ONE_RUN, json.loads(text))
    return ranks


def without(names: set[str], rank: dict[str, Any]) -> dict[str, Any]:
    """What a rank printed, without these variables."""
    environ = {name: value for name, value in rank["environ"].items() if name not in names}
    return {**rank, "environ": environ}


@pytest.mark.invariant("The submitted job is the rehearsed job")
def test_a_rehearsed_and_a_submitted_job_give_each_rank_the_same(desk: Desk) -> None:
    (desk.project / "train.py").write_text(TRAIN)
    job = JOB.replace("train.py print:hello", "train.py --epochs 90 --name 'a b'").replace(
        "torch", "rank-table"
    )
    (desk.project / "job.yaml").write_text(job + MORE)
    desk.put_input()
    more = {"MY_TOKEN": "a-secret-of-the-shell"}
    rehearsed = ranks(desk.rehearsed(more=more))
    submitted = desk.job("submit", "job.yaml", "--watch", more=more)
    assert submitted.code == 0, submitted
    run = ranks(submitted.out)
    assert len(rehearsed) == 4
    only_here = {*desk.environ} - {"PATH", "HOME"}  # keys for ModelArts, of the shell of the rehearsal
    assert run == {label: without(only_here, rank) for label, rank in rehearsed.items()}
    first = run["[node 1] [rank 2]"]
    assert first["argv"][1:5] == ["--epochs", "90", "--name", "a b"]
    assert first["argv"][-1] == "--lr=0.10"
    names = {"RANK_ID": "2", "RANK_SIZE": "4", "GREETING": "hello, $USER", "EMPTY": "", **more}
    assert {name: first["environ"][name] for name in names} == names
    assert first["environ"]["MA_NUM_HOSTS"] == "2"
