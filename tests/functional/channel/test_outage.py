"""An outage of the network between two nodes: in a network namespace, whose loopback goes down and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Node 0 and node 1 of a job in one process; `ip link` ends and begins the outage.
PROGRAM = """
import subprocess, sys, time
from ma_boot.platform.modelarts.network import free_port
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.processes.signals import SignalInbox

def link(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, (condition, [node.dead for node in nodes])
        time.sleep(0.05)

link("up")
seconds = float(sys.argv[1])
at = Address("127.77.0.1", free_port())
with SignalInbox() as inbox:
    nodes = [NodeChannel("a token of the job", "job", node, 2, at, inbox) for node in (0, 1)]
    nodes[1].meet(at)
    until(lambda: nodes[0].connected == {1} and nodes[1].connected == {0}, 5)
    link("down")
    began = time.monotonic()
    for node in nodes:
        node.send("cause", {"from": node.node})
    if seconds > 40:
        until(lambda: nodes[0].dead == {1} and nodes[1].dead == {0}, seconds)
        print("dead", time.monotonic() - began)
    else:
        while time.monotonic() - began < seconds:
            assert not (nodes[0].dead or nodes[1].dead), time.monotonic() - began
            time.sleep(0.05)
        link("up")
        heard = [[], []]
        def both():
            for node, messages in zip(nodes, heard):
                messages += [message.body["from"] for message in node.poll()]
            return heard == [[1], [0]]
        until(both, 6)
        until(lambda: not nodes[0].away and not nodes[1].away, 1)
        assert not (nodes[0].dead or nodes[1].dead)
        assert nodes[0].settle() and nodes[1].settle()
        print("heard")
    for node in nodes:
        node.close()
"""


# A job whose rank 1 fails in the outage, once: both nodes start again after it.
JOB = """
import subprocess, sys, time
from pathlib import Path
from tests.functional.channel.job_by_hand import JobByHand

def link(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

link("up")
train = ["print('step: 1', flush=True)", "while not os.path.exists('go'): time.sleep(0.01)",
         "if attempt == '1' and rank == 1: sys.exit(9)", "if attempt == '1': time.sleep(600)"]
job = JobByHand(Path(sys.argv[2]), 2, train)
job.start("--max-restarts", "1")
link("down")
for node in job.nodes:
    (node.home / "go").write_text("")
time.sleep(float(sys.argv[1]))
assert not job.events(0, "restart"), "it cannot know yet"
link("up")
ended = [running.end() for running in job.running]
assert [end.code for end in ended] == [0, 0], [end.output for end in ended]
print(len(job.events(0, "restart")), len(job.events(1, "restart")))
"""


def outage(seconds: float, tmp_path: Path, text: str = PROGRAM) -> str:
    """Returns the output of a program during an outage."""
    program = tmp_path / "outage.py"
    program.write_text(text)
    namespace = ["unshare", "--map-root-user", "--net"]
    try:
        subprocess.run([*namespace, "ip", "link", "set", "lo", "up"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespace here: unshare --net and ip are missing, or not permitted")
    command = [*namespace, sys.executable, str(program), str(seconds), str(tmp_path)]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": root},
        capture_output=True, text=True, timeout=seconds + 60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.kill)])
def test_an_outage_of_up_to_30_s_loses_no_node_and_no_message(tmp_path: Path, seconds: float) -> None:
    assert outage(seconds, tmp_path) == "heard\n"


@pytest.mark.parametrize("seconds", [5, pytest.param(30, marks=pytest.mark.kill)])
def test_a_job_that_fails_in_an_outage_of_up_to_30_s_starts_again_after_it(
    tmp_path: Path, seconds: float
) -> None:
    assert outage(seconds, tmp_path, JOB) == "1 1\n"


@pytest.mark.kill
def test_a_longer_outage_is_a_loss_on_both_sides(tmp_path: Path) -> None:
    word, seconds = outage(60, tmp_path).split()
    assert word == "dead"
    assert 30 < float(seconds) < 55
