"""`ma_boot report`: one JSON document, and the findings of ascend-fd beside ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ma_boot.report.job_ledger import job_directory
from ma_boot.report.support import ascend_fd
from ma_boot.report.support.ascend_fd import diagnose, log_directories, table_lines
from tests.functional.reports.logs import JOB, SECRET, STAND_INS, event, failed_job, plog, report

KEYS = [
    "format", "job", "program", "end", "exit_code", "by", "cause", "words", "doubt", "advice", "restarts",
    "all_starts", "useful_node_time", "nodes", "nodes_without_events", "page", "ascend_fd", "bundle",
]  # fmt: skip


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of a failed job."""
    failed_job(tmp_path / "log")
    return tmp_path / "log"


def test_result_is_one_json_document_with_the_facts_of_the_text(logs: Path, tmp_path: Path) -> None:
    told = report(logs, "--output", tmp_path / "a.html").output
    ended = report(logs, "--output", tmp_path / "a.html", "--json", "--bundle", tmp_path / "out.zip")
    document = json.loads(ended.output)
    assert [*document] == KEYS
    assert document["end"] == told.splitlines()[0]
    assert document["exit_code"] == 1
    assert document["cause"]["words"] == "RuntimeError: NPU error"
    assert document["page"] == str(tmp_path / "a.html")
    processes = {process["rank"]: process for process in document["nodes"][0]["processes"]}
    assert (processes[1]["role"], processes[1]["exit_code"]) == ("cause", 1)
    assert document["nodes"][0]["software"] == {"python": "3.9", "torch-npu": "2.1"}
    assert document["bundle"]["path"] == str(tmp_path / "out.zip")
    assert "report.json" in [file["name"] for file in document["bundle"]["files"]]


def test_json_document_has_no_secrets(logs: Path) -> None:
    events = logs / f"{JOB}-node-0-events.jsonl"
    events.write_text(events.read_text().replace("NPU error", f"--sk {SECRET}"))
    output = report(logs, "--json").output
    assert SECRET not in output
    assert json.loads(output)["cause"]["words"] == "RuntimeError: --sk ******"


def test_findings_of_ascend_fd_stand_beside_ours(logs: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = sorted(logs.rglob("*"))
    ended = report(logs, "--output", tmp_path / "a.html", path=STAND_INS, TMPDIR=str(temporary))
    assert "RuntimeError: NPU error" in ended.output.splitlines()[0]
    assert "  Fault: worker-0: EJ0003; password=******\n" in ended.output, ended
    assert sorted(logs.rglob("*")) == before
    assert [*temporary.iterdir()] == []
    found = json.loads(report(logs, "--json", path=STAND_INS).output)["ascend_fd"]
    assert found["report"] == {"worker-0": {"codes": ["EJ0003"], "ranks": 2}}
    assert (found["problem"], found["findings"][-1]) == (None, "Fault: worker-0: EJ0003; password=******")


def test_logs_of_each_node_are_diagnosed_apart(logs: Path, tmp_path: Path) -> None:
    other = tmp_path / "node-1"
    plog(other, rank=2, pid=72, text="[ERROR] (EI0006)\n")
    found = diagnose(
        str(STAND_INS / "ascend-fd"), {"worker-0": logs, "worker-1": other}, {"PATH": os.environ["PATH"]}
    )
    assert found.report["worker-1"]["codes"] == ["EI0006"]


def test_log_directories_have_the_names_of_their_nodes() -> None:
    events = [Path("log/x-events.jsonl"), Path("b/x-node-1-events.jsonl"), Path("a/x-node-0-events.jsonl")]
    assert log_directories(events) == {"worker-0": Path("a"), "worker-1": Path("b")}
    together = [Path("log/x-node-0-events.jsonl"), Path("log/x-node-1-events.jsonl")]
    assert log_directories(together) == {"worker-0": Path("log")}
    starts = [Path("a/x-node-0-events.jsonl"), Path("b/x-node-0-events.jsonl")]
    assert sorted(log_directories(starts)) == ["worker-0", "worker-1"]


def test_failure_of_ascend_fd_is_one_line(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"code": 1}))
    ended = report(logs, path=STAND_INS, STAND_IN=str(state))
    assert ended.code == 0
    assert "ascend-fd: no findings: parse ended with 1: Execute cmd [ascend-fd] failed." in ended.output


def test_ascend_fd_that_does_not_answer_is_given_up(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ascend_fd, "DIAGNOSIS_SECONDS", 0.5)
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"sleep": 600}))
    environ = {"PATH": os.environ["PATH"], "STAND_IN": str(state)}
    found = diagnose(str(STAND_INS / "ascend-fd"), {"worker-0": logs}, environ)
    assert found.problem == "parse: no answer within 0 s"


def test_ascend_fd_is_not_run_on_a_success(tmp_path: Path) -> None:
    events = tmp_path / f"{JOB}-node-0-events.jsonl"
    lines = [
        event("job", 0, name=JOB, nodes=1, host="h"),
        event("end", 7, exit_code=0, by=None, cause="success"),
    ]
    events.write_text("\n".join(lines) + "\n")
    assert json.loads(report(events, "--json", path=STAND_INS).output)["ascend_fd"] is None


def test_table_of_ascend_fd_is_read_as_lines() -> None:
    text = (
        "+--+\n|  Report  |\n+--+\n| \x1b[31mA | b \x07| c   d |\n|   |   | more |\nnoise\n" + "| x |\n" * 100
    )
    assert table_lines(text)[:3] == ("Report", r"A: b \x07: c d", "more")
    assert len(table_lines(text)) == 60


def test_url_without_a_ledger_is_an_error_that_names_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    ended = report("obs://bucket/ckpt", "--obs-root", tmp_path / "obs")
    assert (ended.code, ended.output) == (66, "")
    assert "no ledger of a job below obs://bucket/ckpt" in ended.errors
    assert report("obs://B/ckpt", "--obs-root", tmp_path / "obs").code == 64


def test_page_of_a_ledger_alone_is_refused(tmp_path: Path) -> None:
    write_entry(tmp_path)
    page = tmp_path / "page.html"
    ended = report("obs://bucket/ckpt", "--obs-root", tmp_path / "obs", "--output", page)
    assert ended.code == 64
    assert "needs the events of a job" in ended.errors
    assert not page.exists()


def test_hostile_documents_in_a_ledger_break_no_report(tmp_path: Path) -> None:
    directory = write_entry(tmp_path, words=f"\x1b[31mevil --sk {SECRET}\u202e")
    hostile = ["", "[]", "{", '{"at": 1e400, "nodes": 1, "job": "j"}', "x" * 5000, "[" * 900]
    for number, text in enumerate(hostile, 2):
        (directory / f"{number:05}-failed.json").write_text(text)
    (directory.parent / "evil").mkdir()
    ended = report("obs://bucket/ckpt", "--obs-root", tmp_path / "obs")
    assert ended.code == 0, ended
    assert SECRET not in ended.output
    assert all(line.isprintable() for line in ended.output.splitlines())
    assert "job-1: failed: " in ended.output
    document = report("obs://bucket/ckpt", "--obs-root", tmp_path / "obs", "--json").output
    assert SECRET not in document
    assert json.loads(document)["jobs"][0]["all_starts"]["starts"][0]["outcome"] == "failed"


def write_entry(tmp_path: Path, **fields: object) -> Path:
    """Writes a ledger with one entry; returns the directory of its start."""
    directory = tmp_path / "obs/bucket/ckpt/.ma_boot/ledger" / job_directory("job-1") / "999998-9c41e0d2"
    directory.mkdir(parents=True)
    document = {"job": "job-1", "at": 1.7e9, "nodes": 1, "words": "ValueError: x", **fields}
    (directory / "00001-failed.json").write_text(json.dumps(document))
    return directory
