"""Output of one process: its tail for the report, and its limits."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ma_boot.node.observe.rank_stacks import stack_tools
from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.observe.rank_stacks.stack_tools import stacks_of, state_of, wait_for_dump
from ma_boot.node.supervisor.console_lines import PROGRESS_SECONDS
from ma_boot.node.supervisor.output import OutputTail
from ma_boot.node.supervisor.supervise import Limits, stop_reason
from ma_boot.processes.cpu_meter import process_usages, usage_of
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.processes.signals import catches_signal
from ma_boot.processes.tool import LONGEST_ANSWER
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import Pipe

KIB = 1 << 10
BUSY = "import os\nwhile min(os.times()[:2]) < 0.15: os.stat('/'); os.urandom(1000)"
F_GETPIPE_SZ = 1032  # linux/fcntl.h


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    with closing(Pipe(tmp_path)) as pipe:
        yield pipe


def test_pipe_holds_a_mebibyte_and_reads_never_block(pipe: Pipe) -> None:
    size = fcntl.fcntl(pipe.output.fileno(), F_GETPIPE_SZ)
    assert size == min(KIB * KIB, int(Path("/proc/sys/fs/pipe-max-size").read_text()))
    assert pipe.output.pump() is False
    assert pipe.print(b"a\n") == "[rank 0] a\n"
    assert pipe.output.pump() is False


def test_first_output_is_an_event_and_the_time_of_the_last_is_known(pipe: Pipe) -> None:
    before = pipe.output.last_output
    assert pipe.journal.events("first-output") == []
    pipe.print(b"a\n")
    first = pipe.output.last_output
    pipe.print(b"b\n")
    assert before < first < pipe.output.last_output
    (event,) = pipe.journal.events("first-output")
    assert (event["label"], event["rank"]) == ("rank 0", 0)


def test_the_end_of_a_process_empties_a_full_pipe(pipe: Pipe) -> None:
    text = b"%099d\n" * 6_000 % (*range(6_000),)
    assert pipe.print(text).count("\n") == 6_000
    assert pipe.log.read_bytes() == text


def test_report_gets_the_last_64_kib(pipe: Pipe) -> None:
    text = b"".join(b"%07d\n" % number for number in range(40 * KIB))
    for start in range(0, len(text), 64 * KIB):
        pipe.print(text[start : start + 64 * KIB])
    assert pipe.output.tail() == text[-64 * KIB :].decode()
    assert pipe.log.read_bytes() == text


def test_tail_of_a_large_output_needs_little_memory() -> None:
    piece = b"x" * 64 * KIB
    tail = OutputTail()
    tracemalloc.start()
    for _ in range(100):
        tail.add(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(tail.text()) == 64 * KIB
    assert peak < 512 * KIB


def test_a_line_without_an_end_is_printed_in_pieces(pipe: Pipe) -> None:
    assert pipe.print(b"x" * 64 * KIB) == ""
    assert pipe.print(b"x") == f"[rank 0] {'x' * (64 * KIB + 1)}\n"
    assert pipe.print(b"y\n").endswith("x\n[rank 0] y\n")


def test_hidden_output_is_only_in_the_log_file(pipe: Pipe) -> None:
    pipe.print(b"a\nhalf")
    pipe.output.hide()
    assert pipe.print(b" a line\nc\n") == "[rank 0] a\n[rank 0] half\n"
    assert pipe.log.read_bytes() == b"a\nhalf a line\nc\n"


def test_limits_match_the_documents() -> None:
    """docs/supervision.md: 512 MiB, 1,008 MiB, 5 s; docs/options.md: 15 s."""
    text = (Path(__file__).parents[3] / "docs" / "supervision.md").read_text(encoding="utf-8")
    text = " ".join(text.split())
    limits = Limits()
    assert f"after {limits.quiet_bytes / (1 << 20):.0f} MiB" in text
    assert f"from {limits.silent_bytes / (1 << 20):,.0f} MiB on" in text
    assert f"the current state is shown every {PROGRESS_SECONDS:.0f} s" in text
    assert (limits.stop_timeout, limits.hurry) == (15.0, signal.SIGKILL)


def test_the_first_stop_signal_is_the_reason() -> None:
    assert stop_reason([], []) == ""
    assert stop_reason([signal.SIGTERM, signal.SIGINT], []) == "SIGTERM received"


def test_the_session_of_a_process_is_not_its_group() -> None:
    with subprocess.Popen(
        ["bash", "-c", "set -m; sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        group, usage = os.getpgid(pid), process_usages()[pid]
        os.kill(pid, signal.SIGKILL)
        assert group == pid
        assert (usage.parent, usage.session) == (shell.pid, os.getsid(0))


def test_ended_process_has_no_stacks() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    (answer,) = stacks_of([RankProcess(ended.pid, "")])
    assert answer.startswith("no stacks: py-spy is not installed, and the script does not")


def test_last_output_of_a_silent_process_is_its_start(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path)
    assert pipe.output.last_output > 0
    os.close(pipe.sink)
    assert pipe.output.pump() is None
    pipe.output.close()
    pipe.journal.close()


def test_cpu_time_is_that_of_programs_and_calls_with_reaped_children() -> None:
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    spent = os.times()
    assert min(spent[2:4]) >= 0.1, "each of them tells"
    assert process_usages()[os.getpid()].cpu == pytest.approx(sum(spent[:4]), abs=0.06)


def py_spy(directory: Path, script: str, shell: str = "/bin/sh") -> str:
    """The PATH with a stand-in of py-spy."""
    (directory / "py-spy").write_text(f"#!{shell}\n{script}\n")
    (directory / "py-spy").chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


@contextmanager
def sleepers(count: int) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Processes that are killed at the end."""
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("script", "shell", "answer"),
    [
        ("echo stack of $3", "/bin/sh", "stack of PID\n"),
        ("echo half; exit 1", "/bin/sh", "no stacks: py-spy failed: no reason, and the script does not"),
        ("exit 0", "/bin/sh", "no stacks: py-spy failed: no reason, and the script does not"),
        ("echo cannot >&2; exit 1", "/bin/sh", "no stacks: py-spy failed: cannot, and the script does not"),
        ("printf '\\377\\n'", "/bin/sh", "\ufffd\n"),
        ("", "/no/python", "no stacks: PLACE/py-spy cannot be executed: No such file"),
    ],
)
def test_the_answer_of_py_spy(tmp_path: Path, script: str, shell: str, answer: str) -> None:
    path = py_spy(tmp_path, script, shell)
    with sleepers(1) as (process,):
        (stack,) = stacks_of([RankProcess(process.pid, path)])
    assert stack.startswith(answer.replace("PID", f"{process.pid}").replace("PLACE", f"{tmp_path}"))


def test_output_since_a_position_is_returned(pipe: Pipe) -> None:
    assert pipe.output.since(0)[:2] == (0, b"")
    pipe.print(b"first\n")
    assert pipe.output.since(0)[:2] == (6, b"first\n")
    pipe.print(b"second\n")
    assert pipe.output.since(6)[:2] == (13, b"second\n")
    assert pipe.output.since(13) == (13, b"", pipe.output.last_output)
    pipe.print(b"x" * 70 * KIB)
    assert pipe.output.since(13)[:2] == (13 + 70 * KIB, b"x" * 64 * KIB)


def test_the_dump_of_faulthandler_is_taken_from_the_output(pipe: Pipe) -> None:
    script = "import faulthandler, signal, time; faulthandler.register(signal.SIGUSR1); print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=pipe.sink, stderr=pipe.sink) as process:
        eventually(lambda: pipe.output.pump() and "ready" in pipe.output.tail(), "it is ready")
        over = threading.Event()
        reading = threading.Thread(
            target=lambda: [pipe.output.pump() for _ in iter(lambda: over.wait(0.01), True)]
        )
        reading.start()
        (answer,) = stacks_of([RankProcess(process.pid, "", pipe.output)])
        over.set()
        reading.join()
        process.kill()
    assert "most recent call first" in answer
    assert "ready" not in answer


def test_only_output_after_the_signal_is_a_dump(pipe: Pipe) -> None:
    dump = 'Current thread 0x1 (most recent call first):\n  File "{}.py", line 1 in f\n'
    pipe.print(dump.format("old").encode())
    eventually(lambda: time.monotonic() - pipe.output.last_output > 0.2, "it is long ago")
    since = time.monotonic()
    assert wait_for_dump(pipe.output, since, since + 0.3) == ""
    pipe.print(dump.format("new").encode())
    assert "new.py" in wait_for_dump(pipe.output, since, time.monotonic() + 60)
    assert time.monotonic() - pipe.output.last_output > 0.15, "more of it may have come"


def test_hanging_py_spy_does_not_delay_other_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hanging one is awaited first; the other answers long before its timeout."""
    monkeypatch.setattr(stack_tools, "PYTHON_SECONDS", 1.0)
    with sleepers(2) as (stuck, other):
        path = py_spy(tmp_path, f'[ "$3" = {stuck.pid} ] && exec sleep 600\necho "stack of $3"')
        answers = stacks_of([RankProcess(stuck.pid, path), RankProcess(other.pid, path)])
    assert answers[0].startswith("no stacks: py-spy did not answer within 1 s, ")
    assert answers[1] == f"stack of {other.pid}\n"


@pytest.mark.parametrize("end", ["exec sleep 600", "exit 1"])
def test_process_goes_on_after_a_py_spy_that_was_killed_or_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """On a busy machine the SIGSTOP of PTRACE_ATTACH may come after the end of py-spy; this stand-in only sends it."""
    monkeypatch.setattr(stack_tools, "PYTHON_SECONDS", 1.0)
    with sleepers(2) as (process, stopped):
        os.kill(stopped.pid, signal.SIGSTOP)
        eventually(lambda: state_of(stopped.pid) == "T", "it is stopped")
        path = py_spy(tmp_path, f'kill -STOP "$3"\n{end}')
        stacks_of([RankProcess(process.pid, path), RankProcess(stopped.pid, path)])
        eventually(lambda: state_of(process.pid) == "S", "it goes on")
        assert state_of(stopped.pid) == "T", "another has stopped this one"


TRACES = """
import ctypes, os, sys, time
pid = int(sys.argv[1])
assert ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0  # PTRACE_ATTACH
os.waitpid(pid, 0)
print("holds it", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("shell", "state"), [("exec {}", "R"), ("{}; true", "t")], ids=["ours", "a debugger"]
)
def test_process_that_our_py_spy_holds_for_a_moment_is_not_stopped(shell: str, state: str) -> None:
    """As on a busy machine, when the reading of an earlier look goes on beside the next one."""
    command = shell.format(shlex.join([sys.executable, "-c", TRACES]) + ' "$1"')
    with sleepers(1) as (process,):
        argv = ["/bin/sh", "-c", command, "sh", f"{process.pid}"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as tracing:
            assert tracing.stdout is not None
            tracing.stdout.readline()
            assert (process_stat(process.pid) or [""])[0] == "t"
            assert state_of(process.pid) == state
            os.killpg(tracing.pid, signal.SIGKILL)


@pytest.mark.parametrize("hang", ["sleep 600", "setsid sh -c 'echo $$ > PID; exec sleep 600'"])
def test_children_of_py_spy_do_not_outlast_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    """A wrapper whose child keeps its output open; one in a session of its own outlives the wrapper's group."""
    monkeypatch.setattr(stack_tools, "PYTHON_SECONDS", 1.0)
    path = py_spy(tmp_path, f"{hang.replace('PID', str(tmp_path / 'pid'))}\necho never")
    began = time.monotonic()
    (answer,) = stacks_of([RankProcess(1, path)])
    assert time.monotonic() - began < 30
    if "setsid" in hang:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert answer.startswith("no stacks: py-spy did not answer within 1 s, and")


def test_endless_output_of_py_spy_is_cut_at_a_mebibyte(tmp_path: Path) -> None:
    (answer,) = stacks_of([RankProcess(1, py_spy(tmp_path, "yes stack\nexit 0"))])
    assert answer.startswith("stack\n")
    assert len(answer) == LONGEST_ANSWER


SLEEPS = """
import ctypes
calls = ctypes.PyDLL(None)
if calls.vfork() == 0:  # the parent sleeps uninterruptibly until its child ends
    calls.pause()
"""


def test_a_process_in_uninterruptible_sleep_is_read_as_it_is(tmp_path: Path) -> None:
    path = py_spy(tmp_path, 'echo "stack by $*"')
    with subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True) as asleep:
        eventually(lambda: (process_stat(asleep.pid) or "?")[0] == "D", "it sleeps")
        (answer,) = stacks_of([RankProcess(asleep.pid, path)])
        os.killpg(asleep.pid, signal.SIGKILL)
    assert answer == f"stack by dump --pid {asleep.pid} --nonblocking\n"


def test_rank_that_ends_during_the_request_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_first(pid: int, signum: int) -> bool:
        if pid == ending.pid:
            ending.kill()
            ending.wait()
        return pid == ending.pid

    monkeypatch.setattr(stack_tools, "catches_signal", ends_first)
    with sleepers(2) as (ending, other):
        answers = stacks_of([RankProcess(ending.pid, ""), RankProcess(other.pid, "")])
    assert answers[0] == "no stacks: py-spy is not installed, and SIGUSR1 was not sent: No such process"
    assert answers[1].startswith("no stacks: py-spy is not installed, and the script does not call")


def test_the_times_of_a_process_are_fields_of_proc() -> None:
    """proc(5) counts from 1, the pid and the name are before them: 4 is ppid, 6 session, 14 to 17 times, 22 starttime."""
    tick = os.sysconf("SC_CLK_TCK")
    usage = usage_of([str(1000 * field) for field in range(3, 53)])
    assert (usage.parent, usage.session, usage.started) == (4000, 6000, "22000")
    assert usage.cpu == pytest.approx((14 + 15 + 16 + 17) * 1000 / tick)


@pytest.mark.parametrize("others", range(16))
def test_handler_of_sigusr1_is_detected(others: int) -> None:
    """Independent of the other signals that it catches."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGWINCH)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for bit, number in enumerate(numbers[1:]):
            signal.signal(number, (lambda *_: None) if others & 1 << bit else signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        assert not catches_signal(os.getpid(), signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        assert catches_signal(os.getpid(), signal.SIGUSR1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
