"""The page of a run: written however the run ends, named in the report, without any effect on the exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ma_boot.node.transfers.progress import TransferProgress
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from path_mapping.transfer.scheduler import Progress
from tests.functional.node import DEADLINE_SECONDS, RANK, Ended, Node, eventually
from tests.synthetic import synthetic_job

PAGE = "modelarts-job-test-node-0-report.html"
EVENTS = "modelarts-job-test-node-0-events.jsonl"


def page(node: Node, name: str = PAGE) -> str:
    return (node.log_dir / name).read_text()


def headline(text: str) -> str:
    (headline,) = re.findall(r'<h1>(?:<span class="en">)?(.*?)<', text)
    return str(headline)


def test_a_run_leaves_a_page_and_the_report_names_it(node: Node) -> None:
    ended = node.boot(RANK, "print:hello")
    assert ended.code == 0, ended.output
    assert f"[ma_boot] page: {node.log_dir / PAGE}" in map(str.rstrip, ended.output.splitlines())
    assert headline(page(node)) == "The job succeeded: all 2 processes ended with exit code 0."
    assert "<pre>hello</pre>" in page(node)


def test_the_page_of_a_failure_has_the_cause_and_the_last_words(node: Node) -> None:
    ended = node.boot(RANK, "fail:1:loss <is> NaN", "sleep")
    assert ended.code == 1
    assert headline(page(node)).startswith("Rank 1 on node 0 failed first: it ended with exit code 1 after")
    assert "loss &lt;is&gt; NaN" in page(node)


def test_a_boot_that_fails_before_any_process_leaves_a_page(node: Node) -> None:
    node.table.write_text('{"status": "completed", "group_count": "1", "group_list": []}')
    ended = node.boot(RANK)
    assert ended.code == 65
    assert headline(page(node)) == "The rank table is complete but invalid on node 0."


def test_a_stopped_run_leaves_a_page(node: Node) -> None:
    running = node.start(RANK, "print:here", "sleep")
    running.until("here")
    running.signal(signal.SIGTERM)
    assert running.end().code == 143
    assert headline(page(node)) == "The job was stopped by SIGTERM from outside."


def test_a_second_run_keeps_the_first_ones_page_and_shows_both(node: Node) -> None:
    node.boot(RANK, "exit:3")
    node.boot(RANK, "print:well")
    assert "failed first" in headline(page(node, PAGE.replace(".html", ".1.html")))
    assert headline(page(node)).startswith("The job succeeded")
    assert "reruns of the boot command" in page(node)


def test_secrets_of_the_environment_and_in_urls_are_masked(node: Node) -> None:
    node.variables["MY_SECRET"] = "planted-0815"
    words = (
        "$MY_SECRET https://u:pw-planted@host/x?Signature=sig-planted&x=1 api_key=key-planted; tokens: 409600"
    )
    ended = node.boot("bash", "-c", f'echo "{words}"; exit 3')
    assert ended.code == 3
    assert "https://******@host/x?Signature=******" in page(node)
    assert "tokens: 409600" in page(node)
    assert "planted" not in page(node)


def test_missing_events_cost_the_page_and_nothing_else(node: Node) -> None:
    ended = node.boot("bash", "-c", f"rm {node.log_dir / EVENTS}; exit 5")
    assert ended.code == 5
    assert "[ma_boot] warning: no page was made: cannot read the events" in ended.output
    assert "[ma_boot] exit code 5: " in ended.output.splitlines()[-1]
    assert not (node.log_dir / PAGE).exists()


@pytest.mark.invariant("The page never affects the job")
def test_a_page_that_takes_too_long_is_given_up(node: Node) -> None:
    events = node.log_dir / EVENTS
    began = time.monotonic()
    line = '{"kind": "x", "words": ["some", "of", "a", "task"]}'
    ended = node.boot("bash", "-c", f"yes '{line}' | head -c 70000000 >> {events}")  # more than are read
    assert time.monotonic() - began < DEADLINE_SECONDS
    assert ended.code == 0
    assert f"no page was made: 5 s were not enough for {node.log_dir / PAGE}" in ended.output
    assert ended.output.splitlines()[-1] == "[ma_boot] exit code 0: success"


def test_a_fifo_in_place_of_the_events_is_not_waited_for(node: Node) -> None:
    events = node.log_dir / EVENTS
    ended = node.boot("bash", "-c", f"rm -f {events}; mkfifo {events}; true")
    assert ended.code == 0
    assert f"no page was made: cannot read the events {events}: not a regular file" in ended.output


def test_the_first_output_of_each_rank_is_an_event_once(node: Node) -> None:
    node.boot(RANK, "print:one", "print:two")
    events = node.events()
    spoke = [event for event in events if event["kind"] == "first-output"]
    starts = {event["label"]: event for event in events if event["kind"] == "start"}
    exits = {event["label"]: event for event in events if event["kind"] == "exit"}
    assert sorted(event["label"] for event in spoke) == ["rank 0", "rank 1"]
    for event in spoke:
        label = event["label"]
        assert starts[label]["monotonic_ns"] <= event["first_ns"]  # read later than the end, perhaps
        assert events.index(event) < events.index(exits[label])


def test_a_rank_without_output_has_no_such_event(node: Node) -> None:
    node.boot("true")
    assert "first-output" not in {event["kind"] for event in node.events()}
    assert "job" in {event["kind"] for event in node.events()}


def test_a_transfer_reports_its_progress_from_time_to_time(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with SignalInbox(), Console(os.open(os.devnull, os.O_WRONLY)) as console:
        journal = Journal(console)
        journal.open(file, 0)
        updates = 0
        with TransferProgress("inputs", "download", journal).shown() as update:

            def noted() -> list[str]:
                nonlocal updates
                updates += 1
                update(Progress(1, 2, updates, 1 << 40))
                return file.read_text().splitlines()

            eventually(lambda: len(noted()) >= 2, "two events of progress")
        journal.close()
    assert updates > 20, "an event for a moment, not for each piece that was moved"
    assert '"kind": "progress", "direction": "download", "files_done": 1, "files": 2' in file.read_text()


def test_events_of_several_threads_stay_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with Console(os.open(os.devnull, os.O_WRONLY)) as console:
        journal = Journal(console)
        journal.open(file, 0)

        def write() -> None:
            for _ in range(50):
                journal.event("x", text="y" * 9000)

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        journal.close()
    lines = file.read_text().splitlines()
    assert len(lines) == 200
    assert {len(line) > 9000 and line.startswith("{") and line.endswith("}") for line in lines} == {True}


def report(directory: Path, *arguments: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "report", *arguments],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A log directory that was copied here from a job of three nodes."""
    for number, text in enumerate(synthetic_job(3, 2, fails=3)):
        (tmp_path / f"node-{number}-events.jsonl").write_text(text)
    (tmp_path / "proc-rank-3.txt").write_text("the last words of 3\n")
    return tmp_path


FILES = [f"node-{number}-events.jsonl" for number in range(3)]


def test_report_merges_the_nodes_and_finds_logs_beside_the_events(copied: Path) -> None:
    ended = report(copied, *reversed(FILES), "--output", "deep/job.html")
    assert (ended.code, ended.output.splitlines()[-1]) == (0, "page: deep/job.html")
    text = (copied / "deep" / "job.html").read_text()
    assert headline(text).startswith("Rank 3 on node 1 failed first")
    assert "the last words of 3" in text
    assert re.findall(r"<b[^>]*>(\d)</b>", text) == ["0", "1", "2"]


def test_report_writes_to_report_html_by_default(copied: Path) -> None:
    assert report(copied, *FILES).output.endswith("\npage: report.html\n")
    assert (copied / "report.html").exists()


def test_report_refuses_files_that_are_not_events_of_one_job(copied: Path) -> None:
    assert report(copied).code == 64
    assert report(copied, "missing.jsonl").code == 64
    (copied / "empty").write_text("nothing\n")
    ended = report(copied, "empty")
    assert (ended.code, ended.output) == (
        78,
        "ma_boot: no events in empty: expected *-events.jsonl of a job\n",
    )
    other = (copied / FILES[0]).read_text().replace("modelarts-job-synthetic", "modelarts-job-other")
    (copied / "other").write_text(other)
    ended = report(copied, FILES[1], "other")
    assert ended.code == 78
    assert "several:\n  - modelarts-job-synthetic\n  - modelarts-job-other" in ended.output
    assert not (copied / "report.html").exists()
