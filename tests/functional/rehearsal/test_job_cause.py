"""The first failure of a whole job, and its hangs, as each of its nodes tells them: rehearsals with real ranks."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ma_boot.processes.orphan_guard import descendants
from ma_boot.report.timeline.boot_run import job_cause
from tests.functional.node import RANK, Ended, Node, eventually
from tests.functional.rehearsal.jobs import (
    SHAPE,
    end,
    job_events,
    last_lines,
    node_events,
    rehearse,
    start,
    write,
)

FOUR = ["--nodes", "4", "--devices-per-node", "2", "--stop-timeout", "5"]


@pytest.mark.invariant("Every node ends with the job's root cause, and no rank receives the token")
@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        (SHAPE, 2),
        (FOUR, 4),
        (["--platform", "volcano", *SHAPE], 2),
        (["--platform", "mindcluster", *SHAPE], 2),
    ],
)
def test_every_node_ends_with_the_jobs_cause(laptop: Path, options: list[str], nodes: int) -> None:
    rank = 2 * nodes - 1
    code = write(
        laptop,
        "time.sleep(1)",
        f"if rank == {rank}: raise ValueError('no such layer: 17')",
        "time.sleep(600)",
    )
    ended = rehearse(laptop, *options, code)
    cause = f"node {nodes - 1}, rank {rank}: ValueError: no such layer: 17, at project/train.py:4"
    line = f"[ma_boot] the job's cause: {cause}"
    assert last_lines(ended, nodes) == [line] * nodes
    causes = [event["cause"] for event in node_events(laptop, "job cause")]
    assert causes == [causes[0]] * nodes
    assert_named_everywhere(laptop, ended, cause)


def assert_named_everywhere(laptop: Path, ended: Ended, cause: str) -> None:
    """One cause in the events, the failure files, the page, the rehearsal's last line and `ma_boot report`."""
    (job,) = (laptop / "ma_boot-rehearsal").glob("ma-job-*")
    for event in node_events(laptop, "job cause"):
        assert str(job_cause(event)) == cause
    for file in job.glob("node-*/home/ma-user/modelarts/log/*-failure*.json"):
        assert json.loads(file.read_text())["job_cause"] == cause
    assert ended.output.rstrip().endswith(f"exit code {ended.code}: {cause}")
    (job_end,) = job_events(laptop, "job-end")
    assert job_end["cause"] == cause
    page = html.unescape((job / "report.html").read_text())
    who, _, words = cause.partition(": ")
    node, _, rank = who.partition(", ")
    assert re.search(rf"<h1[^>]*>.*{rank.capitalize()} on {node} failed first", page)
    assert re.search(rf'<span class="cause-words"><code>(<span class="en">)?{re.escape(words)}</', page)
    command = [sys.executable, "-m", "ma_boot", "report", str(job)]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert reported[0].startswith(f"{rank.capitalize()} on {node} failed first")
    assert reported[0].endswith(words)
    assert reported[-1] == f"page: {job / 'report.html'}"


def test_an_exception_that_comes_after_its_peers_abort_is_the_cause(laptop: Path) -> None:
    """Rank 2 raises, but takes its time to end; rank 0, on the other node, loses it and ends first."""
    code = write(
        laptop,
        "import atexit",
        "if rank == 2:",
        "    atexit.register(time.sleep, 2)",
        "    raise KeyError('layer 17')",
        "time.sleep(0.5)",
        "if rank == 0: raise ConnectionResetError('Connection reset by peer')",
        "time.sleep(600)",
    )
    ended = rehearse(laptop, *SHAPE, code)
    assert "rank 0 ended with exit code 1: stopping rank 1" in ended.output, "it ended first"
    assert (
        last_lines(ended)
        == ["[ma_boot] the job's cause: node 1, rank 2: KeyError: 'layer 17', at project/train.py:6"] * 2
    )
    assert_named_everywhere(laptop, ended, "node 1, rank 2: KeyError: 'layer 17', at project/train.py:6")


def test_a_node_that_is_lost_is_the_cause_if_the_others_only_lost_it(laptop: Path) -> None:
    code = write(
        laptop,
        "time.sleep(6)",
        "if rank == 1: raise ConnectionResetError('Connection reset by peer')",
        "time.sleep(600)",
    )
    ended = rehearse(laptop, *SHAPE, "--fault", "lost node=1 at=3s", code)
    line = next(line for line in ended.output.splitlines() if "the job's cause" in line)
    assert line.startswith("[node 0] [ma_boot] the job's cause: node 1: the node does not answer"), (
        ended.output
    )


def test_a_failure_before_the_ranks_start_is_told_too(laptop: Path) -> None:
    code = write(laptop, "time.sleep(600)")
    (laptop / "project" / "ma-pre-start.sh").write_text('[ "$VC_TASK_INDEX" = 0 ] || exit 9\n')
    ended = rehearse(laptop, *SHAPE, code)
    lines = last_lines(ended)
    assert lines[0] == lines[1]
    assert lines[0].startswith("[ma_boot] the job's cause: node 1: ")
    assert "9" in lines[0]


@pytest.mark.parametrize(("shape", "nodes", "seconds"), [(SHAPE, 2, "1.5"), (FOUR, 4, "3")])
def test_a_hang_is_told_with_the_stacks_of_all_ranks_before_anything_is_ended(
    laptop: Path, shape: list[str], nodes: int, seconds: str
) -> None:
    rank = nodes + 1
    code = write(
        laptop,
        "def all_reduce(): time.sleep(600)",
        "def next_batch(): time.sleep(600)",
        f"next_batch() if rank == {rank} else all_reduce()",
    )
    ended = rehearse(laptop, *shape, "--hang-timeout", seconds, "--hang-action", "stop", code)
    stacks = node_events(laptop, "stacks")
    assert [event["node"] for event in stacks] == list(range(nodes)), ended.output
    others = [other for other in range(2 * nodes) if other != rank]
    for event in stacks:
        assert [fold["ranks"] for fold in event["folded"]] == [[rank], others]
        assert (event["suspect"]["node"], event["suspect"]["rank"]) == (rank // 2, rank)
        assert event["silent"] == []
    stops = [event["time"] for event in node_events(laptop, "stop")]
    assert min(stops) > max(event["time"] for event in stacks) - 2
    for line in last_lines(ended, nodes):
        assert (
            f"the job's cause: node {rank // 2}, rank {rank}: it hung: it is loading data in next_batch"
            in line
        )


@pytest.mark.parametrize("has_stacks", [True, False], ids=["stacks", "no stacks"])
@pytest.mark.parametrize(
    ("devices", "who"), [("1", "rank 0 makes progress"), ("2", "ranks 0-2 make progress")]
)
def test_independent_rank_that_idles_is_named_while_the_others_train(
    laptop: Path, devices: str, who: str, has_stacks: bool
) -> None:
    """No rank waits for another one: those that train are in code of their own, each at another place."""
    (laptop / "py-spy").write_text("#!/bin/sh\nexit 1\n")
    (laptop / "py-spy").chmod(0o755)
    rank = 2 * int(devices) - 1
    code = write(
        laptop,
        "def step(number):",
        "    time.sleep(0.1)",
        f"    open(os.devnull, 'wb').write(bytes({100_000 if has_stacks else 1}))",
        "    print(f'step: {number} loss: 0.5', flush=True)",
        "def train_0():",
        "    for number in range(1000): step(number)",
        "def train_1():",
        "    for number in range(1000): step(number)",
        "def train_2():",
        "    for number in range(1000): step(number)",
        "def stall():",
        "    step(1), step(2), time.sleep(600)",
        f"stall() if rank == {rank} else (train_0, train_1, train_2)[rank]()",
    )
    shape = ["--nodes", "2", "--devices-per-node", devices, "--stop-timeout", "5"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    more = {"PATH": path if has_stacks else f"{laptop}:{path}"}
    ended = rehearse(laptop, *shape, "--hang-timeout", "3", "--hang-action", "stop", code, more=more)
    cause = f"node 1, rank {rank}: it hung: it is idle, while {who}"
    assert last_lines(ended) == [f"[ma_boot] the job's cause: {cause}"] * 2, ended.output
    assert ended.output.rstrip().endswith(f"[ma_boot] exit code 124: {cause}")
    assert f"exit code 124: node 1, rank {rank} hung, and ma_boot stopped the run" in ended.output
    assert "the job hung" not in ended.output


def test_rank_that_loops_is_found_after_the_only_node_that_printed_steps_has_ended(laptop: Path) -> None:
    code = write(
        laptop,
        "for step in range(rank, 4 - 4 * rank):",
        "    time.sleep(0.5)",
        "    print(f'step: {step} loss: 0.5', flush=True)",
        "while rank: pass",
    )
    shape = ["--nodes", "2", "--devices-per-node", "1", "--stop-timeout", "5"]
    ended = rehearse(laptop, *shape, "--hang-timeout", "2", "--hang-action", "stop", code)
    assert (ended.code, ends_of_nodes(laptop)) == (124, {0: 0, 1: 124}), ended.output
    assert "exit code 124: node 1, rank 1 hung, and ma_boot stopped the run" in ended.output


def test_idle_rank_is_named_after_all_ranks_of_other_nodes_have_ended(laptop: Path) -> None:
    shape = ["--nodes", "2", "--devices-per-node", "1", "--stop-timeout", "5"]
    code = write(laptop, "time.sleep(600 if rank else 1)")
    ended = rehearse(laptop, *shape, "--hang-timeout", "2", "--hang-action", "stop", code)
    cause = "the job's cause: node 1, rank 1: it hung: it still runs, while rank 0 has ended"
    assert (ended.code, last_lines(ended)[1]) == (124, f"[ma_boot] {cause}"), ended.output


def ends_of_nodes(laptop: Path) -> dict[int, int]:
    """The exit code that each node has reported."""
    return {event["node"]: event["exit_code"] for event in node_events(laptop, "end")}


@pytest.mark.invariant("Every node ends with the job's root cause, and no rank receives the token")
def test_no_rank_gets_the_token_and_nothing_shows_it(laptop: Path) -> None:
    token = "4d2f0a7be19c4b7d8a55"
    code = write(
        laptop,
        "assert not [name for name in os.environ if 'JOB_TOKEN' in name], os.environ",
        "raise ValueError('at the end')",
    )
    ended, planned = (
        rehearse(laptop, *plan, *SHAPE, code, more={"HOME": str(laptop), "MABOOT_JOB_TOKEN": token})
        for plan in ([], ["--plan"])
    )
    assert "the job's cause: node" in ended.output, ended.output
    assert planned.code == 0, planned.output
    assert token not in ended.output + planned.output
    shown = [file for file in laptop.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]
    assert shown == []


def listening(pid: int) -> list[str]:
    """The addresses at which a process and its descendants listen, by /proc."""
    links: list[str] = []
    for process in (pid, *descendants(pid, {})):
        with suppress(OSError):  # it has just ended
            for link in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):  # it was just closed: the others still count
                    links.append(os.readlink(link))
    inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}
    rows = [
        line.split()
        for name in ("tcp", "tcp6", "udp", "udp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if row[3] in ("0A", "07") and row[9] in inodes]


@pytest.mark.invariant("No port is open without a token; messages without a proof are rejected")
@pytest.mark.parametrize(("token", "nodes", "ports"), [("", 2, 0), ("t" * 16, 1, 0), ("t" * 16, 2, 1)])
def test_without_a_token_or_other_nodes_no_port_is_open(
    tmp_path: Path, token: str, nodes: int, ports: int
) -> None:
    node = Node(tmp_path, 1)
    node.variables.update(MA_NUM_HOSTS=str(nodes), VC_TASK_INDEX="0", VC_WORKER_HOSTS="127.77.1.1,127.77.1.2")
    node.variables.update({"MABOOT_JOB_TOKEN": token} if token else {})
    node.complete_table(nodes)
    running = node.start("--hang-timeout", "600", RANK, "print:ready", "await:go")
    eventually(lambda: any(event["kind"] == "first-output" for event in node.events()), "the rank runs")
    # The thread of the channel may open its port later than the rank prints.
    eventually(lambda: len(listening(running.process.pid)) >= ports, "the port is open")
    assert len(listening(running.process.pid)) == ports
    (node.home / "go").write_text("")
    assert running.end().code == 0


def test_a_token_that_is_too_short_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="0", MABOOT_JOB_TOKEN="secret")
    ended = node.boot(RANK)
    assert ended.code == 78
    assert "MABOOT_JOB_TOKEN has 6 characters: expected at least 16" in ended.output
    assert "secret" not in ended.output


def test_a_port_that_is_taken_is_said_and_the_job_runs(laptop: Path) -> None:
    import socket

    code = write(laptop, "time.sleep(0.5)", "if rank == 3: raise ValueError('17')", "time.sleep(600)")
    with socket.create_server(("127.0.0.1", 0)) as any_port, socket.create_server(("127.0.0.1", 0)):
        port = any_port.getsockname()[1]
        with socket.create_server(("127.0.1.1", port)):  # the address of node 0 in a rehearsal
            ended = rehearse(laptop, *SHAPE, code, more={"MABOOT_CHANNEL_PORT": str(port)})
    assert (
        f"[node 0] [ma_boot] warning: this node receives nothing from its peers: Address already in use: port {port}"
        in ended.output
    )
    assert "the job's cause: node 1, rank 3: ValueError: 17" in last_lines(ended)[1]


@pytest.mark.invariant("The channel delays neither the training nor its end")
def test_an_end_is_not_delayed_by_a_node_that_is_gone(laptop: Path) -> None:
    """Both nodes succeed, at different times; the one that ends last finds no peer."""
    running = start(laptop, *SHAPE, write(laptop, "time.sleep(2 if rank > 1 else 0)"))
    ended = end(running)
    assert ended.code == 0, ended.output
    assert "the job's cause" not in ended.output
    ends = {event["node"]: event["time"] for event in node_events(laptop, "end")}
    run_ends = {e["node"]: e["time"] for e in node_events(laptop, "phase-end") if e["phase"] == "run"}
    assert ends[1] - run_ends[1] < 1.0
