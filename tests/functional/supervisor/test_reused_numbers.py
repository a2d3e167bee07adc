"""Reused pids: a foreign process or group with the number of a reaped one gets no signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.functional.node import PROGRAMS, Node, alive, eventually
from tests.functional.processes.reused import with_number
from tests.functional.supervisor.conftest import Started

RANKS = """
import os, sys, time
rank = os.environ["RANK_ID"]
with open(f"pid.{rank}", "w") as file:
    file.write(str(os.getpid()))
while rank == "1" and not os.path.exists("go"):
    time.sleep(0.01)
sys.exit(3 if rank == "1" else 0)
"""
# Prints the groups that get a signal after their leader was reaped.
LOOK = """
import os, sys
from pathlib import Path
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.children import run_child

def look(event, args):
    if event == "os.killpg" and not os.path.exists(f"/proc/{args[0]}"):
        print("a group without its leader:", event)

sys.addaudithook(look)
"""
SETUP = f"""{LOOK}
with SignalInbox() as inbox:
    for script in ("exit 3", "sleep 600 & exit 3", "kill -9 $$"):
        print(run_child(["sh", "-c", script], os.environ, inbox, print))
"""
BACKGROUND = f"""{LOOK}
from tests.functional.supervisor.conftest import EventLog, group_of, shell
place = Path(sys.argv[1])
with SignalInbox() as inbox, group_of([shell(place, 0, "exit 0")], inbox, EventLog(place)) as group:
    group.workers[0].process.wait()
    print(group.labels())
    group.signal(15)
"""


def test_foreign_process_with_a_reused_pid_gets_no_signal(node: Node) -> None:
    argv = [sys.executable, str(PROGRAMS / "supervisor.py"), str(node.root), "{}", "adopt", "-c", RANKS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as supervisor:
        first = node.root / "pid.0"
        pid = int(eventually(lambda: first.exists() and first.read_text(), "rank 0 runs"))
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "rank 0 has been reaped")
        with with_number(pid, ["sleep", "600"]) as foreign:
            assert os.getpgid(foreign.pid) == pid
            (node.root / "go").touch()
            output, _ = supervisor.communicate(timeout=60)
            assert "rank 1 ended with exit code 3" in output
            assert foreign.poll() is None, "it got a signal that was not for it"


def test_the_group_of_a_program_that_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", SETUP], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split("\n")[:-1], done.stderr) == (["3", "3", "-9"], ""), done


def test_rest_of_an_ended_ranks_group_is_stopped_with_the_others(tmp_path: Path, started: Started) -> None:
    with started("sleep 600 & echo $! > pid", "exec sleep 600") as group:
        first, second = group.workers
        first.process.wait(timeout=30)
        first.collect(first.started_ns, stopped=False)
        left = int((tmp_path / "pid").read_text())
        assert group.labels() == ["rank 1"]
        group.signal(signal.SIGTERM)
        eventually(lambda: not alive(left) and not alive(second.pid), "both have ended")


def test_the_group_of_a_command_that_left_processes_in_the_background(tmp_path: Path) -> None:
    """Such a command counts as running, although its process was reaped."""
    program = [sys.executable, "-c", BACKGROUND, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("['rank 0']\n", ""), done
