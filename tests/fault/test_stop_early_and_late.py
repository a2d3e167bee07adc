"""Stop signals before the first phase and after the last one: never lost, never a success, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node, alive, eventually
from tests.requirement import unavailable

# Runs ma_boot as `python -m ma_boot`, but stops at the import of a module, the second argument.
WATCHED = """
import os, runpy, sys
wanted = sys.argv.pop(1)
def look(event, args):
    if event == "import" and args[0] == wanted and sys.argv:
        os.write(1, b"maboot-test: stopped\\n")
        os.read(0, 1)
sys.addaudithook(look)
runpy.run_module("ma_boot", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=1)
    node.complete_table()
    return node


def as_pid_1() -> list[str]:
    """The command that runs a program as the first process of a container."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
        unavailable("a PID namespace cannot be made here")
    return own


def child_of(pid: int) -> int:
    """The only child of a process; 0 if it has none yet."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def signalled(node: Node, module: str, signum: int, prefix: Sequence[str] = ()) -> tuple[int, bytes]:
    """The exit code and the output of a job that gets a signal when it imports a module."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", WATCHED, module, RANK, "print:trained"], cwd=node.home,
        env=node.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        assert any(b"maboot-test: stopped" in line for line in lines), "it ended before the import"
        os.kill(child_of(process.pid) if prefix else process.pid, signum)
        output, _ = process.communicate(b"g", timeout=60)
    assert b"Traceback" not in output
    return process.returncode, output


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize(
    "module", ["ma_boot.cli.app", "click", "ma_boot.cli.options", "ma_boot.node.boot", "subprocess"]
)
def test_stop_as_pid_1_while_modules_are_imported(node: Node, module: str, signum: int) -> None:
    """The kernel drops a signal to the first process of a container that has no handler for it."""
    code, output = signalled(node, module, signum, as_pid_1())
    assert code == 128 + signum, output
    assert b"trained" not in output


@pytest.mark.parametrize("module", ["ma_boot.cli.app", "ma_boot.cli.options"])
def test_ctrl_c_while_modules_are_imported(node: Node, module: str) -> None:
    code, output = signalled(node, module, signal.SIGINT)
    assert code == 130, output


@pytest.mark.invariant(
    "The exit code is that of a stop, else of the first failing process, else of the uploads; never 0 after a stop"
)
@pytest.mark.parametrize("first", [True, False], ids=["PID 1", "a child"])
def test_stop_at_many_moments(node: Node, first: bool) -> None:
    """From the moment of the first signal handler; before it, the interpreter itself starts."""
    prefix = as_pid_1() if first else []
    for step in range(12):
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "ma_boot", RANK, "print:trained"], cwd=node.home,
            env=node.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        with process:
            pid = eventually(lambda: child_of(process.pid), "it runs") if first else process.pid  # noqa: B023
            if first:
                eventually(lambda: catches(pid, signal.SIGTERM) or not alive(pid), "it has a handler")  # noqa: B023
            time.sleep(0.03 * step)
            sent = alive(pid)
            if sent:
                os.kill(pid, signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
        assert process.returncode in ((143, -signal.SIGTERM) if sent else (0,)), (step, output)
        assert b"Traceback" not in output, output


def catches(pid: int, signum: int) -> bool:
    """Returns whether a process has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signum - 1) & 1)


@pytest.mark.parametrize("mark", ["ma_boot.report.page", "ma_boot.report.page.read"])
def test_stop_while_the_page_is_made(node: Node, mark: str) -> None:
    code, output = signalled(node, mark, signal.SIGTERM)
    assert code == 143, output
    assert output.splitlines()[-1] == b"[ma_boot] exit code 143: stopped by SIGTERM"
    ends = [event["exit_code"] for event in node.events() if event["kind"] == "end"]
    assert ends[-1] == 143
    assert list(node.log_dir.glob("*-failure.json"))


def test_stop_while_the_last_lines_are_printed(node: Node) -> None:
    """ma_boot waits for a stalled reader, for at most 5 s."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "ma_boot", RANK, "print:trained"], cwd=node.home, env=node.environ(),
        stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.STDOUT,
    )  # fmt: skip
    os.set_blocking(write, False)
    try:
        while os.write(write, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(write, True)
    eventually(lambda: any(event["kind"] == "end" for event in node.events()), "the job has ended")
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=60)
    os.close(read)
    os.close(write)
    assert code == 143
