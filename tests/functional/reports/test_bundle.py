"""`ma_boot report --bundle`: what support asks for, without secrets, in one file of bounded size."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path

import pytest

from ma_boot import __version__
from ma_boot.report.support.bundle_plan import plan_bundle
from ma_boot.report.support.log_tree import FoundFile
from tests.functional.reports.logs import JOB, SECRET, STAND_INS, failed_job, plog, report

PLOG = f"logs/{JOB}/ascend/process_log/rank_{{}}/debug/plog/plog-{{}}_1.log"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of a failed job."""
    failed_job(tmp_path / "log")
    return tmp_path / "log"


def contents(bundle: Path) -> dict[str, str]:
    with zipfile.ZipFile(bundle) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_bundle_has_what_support_asks_for_and_lists_it(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"health": ["OK", "Alarm"]}))
    bundle = tmp_path / "out.zip"
    ended = report(logs, "--bundle", bundle, path=STAND_INS, STAND_IN=str(state))
    assert ended.code == 0, ended.errors
    found = contents(bundle)
    assert {*found} == {
        "report.json", "versions.json", "npu-smi.txt", "plan.json",
        f"logs/{JOB}-node-0-failure.json", f"logs/{JOB}-node-0-events.jsonl",
        f"logs/{JOB}-proc-rank-0-device-0.txt", f"logs/{JOB}-proc-rank-1-device-1.txt",
        PLOG.format(0, 70), PLOG.format(1, 71),
    }  # fmt: skip
    assert "Alarm" in found["npu-smi.txt"]
    assert "EJ0003" in found[PLOG.format(1, 71)]
    assert json.loads(found["report.json"])["cause"]["words"] == "RuntimeError: NPU error"
    assert json.loads(found["versions.json"])["ma_boot"] == __version__
    assert [event["kind"] for event in json.loads(found["plan.json"])] == [
        "job",
        "software",
        "start",
        "start",
    ]
    listed = [line.split("  ")[-1] for line in ended.output.splitlines() if line.startswith("  ")]
    assert {*found} <= {*listed}
    assert bundle.stat().st_mode & 0o777 == 0o640


def test_secrets_are_masked_in_the_bundle(logs: Path, tmp_path: Path) -> None:
    plog(logs, rank=1, pid=71, text=f"[ERROR] login {SECRET}-of-the-job, token={SECRET}\n")
    events = logs / f"{JOB}-node-0-events.jsonl"
    events.write_text(
        events.read_text() + json.dumps({"kind": "job", "sk": SECRET}) + f'\ntorn "sk": "{SECRET}'
    )
    report(logs, "--bundle", tmp_path / "out.zip", OBS_SECRET_ACCESS_KEY=f"{SECRET}-of-the-job")
    for name, text in contents(tmp_path / "out.zip").items():
        assert SECRET not in text, name
    assert "WANDB_API_KEY=******" in contents(tmp_path / "out.zip")[f"logs/{JOB}-proc-rank-1-device-1.txt"]


def test_existing_file_is_not_overwritten(logs: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "out.zip"
    bundle.write_text("mine")
    ended = report(logs, "--bundle", bundle)
    assert (ended.code, ended.errors) == (
        64,
        f"ma_boot: --bundle {bundle}: the file exists: remove it, or choose another name\n",
    )
    assert bundle.read_text() == "mine"
    assert not (logs / "report.html").exists()


def test_missing_directory_of_the_bundle_is_an_error(logs: Path, tmp_path: Path) -> None:
    ended = report(logs, "--bundle", tmp_path / "none" / "out.zip")
    assert (ended.code, "No such file or directory" in ended.errors) == (73, True)


def test_links_are_not_followed(logs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    plog(outside, rank=9, pid=71, text="of another user\n")
    (logs / "plog-71_2.log").symlink_to(next(outside.rglob("plog-*")))
    (logs / "linked").symlink_to(outside)
    (logs / "loop").symlink_to(logs)
    os.mkfifo(logs / "plog-71_3.log")
    (logs / f"{JOB}-proc-rank-1-device-1.txt").unlink()
    (logs / f"{JOB}-proc-rank-1-device-1.txt").symlink_to("/etc/passwd")
    report(logs, "--bundle", tmp_path / "out.zip")
    found = contents(tmp_path / "out.zip")
    assert not any("of another user" in text or "root:" in text for text in found.values())
    assert PLOG.format(1, 71) in found


def test_bundle_has_at_most_50_mb_and_says_what_was_cut(logs: Path, tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(3_000_000).hex().encode()
    for number in range(100):
        file = plog(logs, rank=1, pid=71 if number % 2 else 900, text="")
        file.with_name(f"plog-{71 if number % 2 else 900}_{number + 2}.log").write_bytes(noise)
    with open(logs / f"{JOB}-proc-rank-1-device-1.txt", "ab") as log:
        log.truncate(1 << 34)
        log.seek(0, os.SEEK_END)
        log.write(b"\nthe last line\n")
    ended = report(logs, "--bundle", tmp_path / "out.zip")
    assert (tmp_path / "out.zip").stat().st_size < 50_000_000
    found = contents(tmp_path / "out.zip")
    assert sum(map(len, found.values())) < 50_000_000
    assert found[f"logs/{JOB}-proc-rank-1-device-1.txt"].endswith("the last line\n")
    assert f"{JOB}-proc-rank-1-device-1.txt (the end of 17.2 GB)" in ended.output
    assert "left out, as the bundle has at most 50 MB: " in ended.output


def test_logs_of_failed_processes_come_before_those_of_others() -> None:
    files = [
        FoundFile(Path(name), name, bytes=60, modified=0.0)
        for name in (
            "plog-1_1.log",
            "plog-2_1.log",
            "x-events.jsonl",
            "rank-1.txt",
            "rank-1.1.txt",
            "rank-2.txt",
        )
    ]
    plan = plan_bundle(files, {"rank-1.txt"}, {2}, room=250)
    assert [(file.source.name, file.taken) for file in plan.files] == [
        ("x-events.jsonl", 60), ("rank-1.1.txt", 60), ("rank-1.txt", 60), ("plog-2_1.log", 60), ("plog-1_1.log", 10),
    ]  # fmt: skip
    assert plan.left_out == ()
    assert [file.name for file in plan_bundle(files, (), {2}, room=60).left_out] == [
        "plog-2_1.log",
        "plog-1_1.log",
    ]


def test_tool_of_cards_that_fails_is_named(logs: Path, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho no driver\nexit 9\n")
    tool.chmod(0o755)
    report(logs, "--bundle", tmp_path / "out.zip", path=tool.parent)
    assert contents(tmp_path / "out.zip")["nvidia-smi.txt"] == "no driver\n\nexit code 9\n"
