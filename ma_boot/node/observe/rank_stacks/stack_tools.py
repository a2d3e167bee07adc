"""Reads the stacks of Python processes: by py-spy, or by faulthandler where py-spy is missing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO

from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.observe.rank_stacks.stacks import last_dump
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.processes.signals import catches_signal, signal_group
from ma_boot.processes.tool import contents, memory_file
from ma_boot.redact import without_secret_variables

# seconds; for py-spy on all processes together
PYTHON_SECONDS = 4.0
# seconds; for processes in uninterruptible sleep, or stopped by a signal
ASLEEP_SECONDS = 0.5
# seconds; for the second call with native frames, whose symbols py-spy has to look up
NATIVE_SECONDS = 3.0
# seconds; for a py-spy that was killed to end
KILLED_SECONDS = 0.5
# seconds; for the dump of faulthandler, which arrives as output of the rank
DUMPED_SECONDS = 1.5
# seconds without output after which a dump is complete: faulthandler prints it in one piece
DUMP_QUIET_SECONDS = 0.15


def stacks_of(processes: Sequence[RankProcess]) -> list[str]:
    """Returns the stacks of each process, or the reason why there are none.

    A process in uninterruptible sleep cannot be stopped, and one that a signal has stopped confuses py-spy,
    so both are read while they may run. Without py-spy, SIGUSR1 makes faulthandler print the stacks to the
    rank's own output; it is only sent to a process that catches it, since it would end any other.
    """
    paths = {process.pid: shutil.which("py-spy", path=process.path) for process in processes}
    spies = {pid: path for pid, path in paths.items() if path}
    failed = {process.pid: "py-spy is not installed" for process in processes if process.pid not in spies}
    environs = {process.pid: without_secret_variables(process.environ) for process in processes}
    asleep = {pid: spy for pid, spy in spies.items() if state_of(pid) in ("D", "T", "t")}
    others = {pid: spy for pid, spy in spies.items() if pid not in asleep}
    dumps = _dumped(others, environs, (), PYTHON_SECONDS, failed)
    with_native = {pid: spies[pid] for pid in dumps}
    dumps.update(_dumped(asleep, environs, ("--nonblocking",), ASLEEP_SECONDS, failed))
    dumps.update(_dumped(with_native, environs, ("--native",), NATIVE_SECONDS, {}))
    for pid in others:
        if state_of(pid) == "T":  # by a look; see `_resume`
            _resume(pid)
    dumps.update(_by_faulthandler([process for process in processes if process.pid not in dumps], failed))
    return [dumps[process.pid] for process in processes]


def state_of(pid: int) -> str:
    """Returns the letter of a process's state, see proc(5); empty for one that has gone.

    A process that a py-spy of ours holds for a moment (t) counts as running (R): on a busy machine the
    reading of an earlier look may go on beside the next one.
    """
    state = (process_stat(pid) or [""])[0]
    if state != "t":
        return state
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            tracer = next((line.split()[1] for line in status if line.startswith("TracerPid:")), "0")
    except OSError:
        return ""
    by_us = (process_stat(int(tracer)) or ["", ""])[1] == f"{os.getpid()}"
    return "R" if by_us or tracer == "0" else state


def _dumped(
    spies: Mapping[int, str],
    environs: Mapping[int, Mapping[str, str]],
    options: Sequence[str],
    seconds: float,
    failed: dict[int, str],
) -> dict[int, str]:
    """Runs py-spy on all processes at the same time; adds the reasons of failures to `failed`.

    A py-spy that times out is killed with its children and reaped only if it ends at once, since it may be in
    uninterruptible sleep. It prints to memory, because its children would keep a pipe open.
    """
    until = time.monotonic() + seconds
    dumps: dict[int, str] = {}
    with ExitStack() as files:
        running: dict[int, tuple[subprocess.Popen[bytes], BinaryIO, BinaryIO]] = {}
        for pid, spy in spies.items():
            output, errors = files.enter_context(memory_file()), files.enter_context(memory_file())
            try:
                process = subprocess.Popen(
                    [spy, "dump", "--pid", str(pid), *options],
                    env=environs[pid], stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:  # for example the interpreter of a script does not exist
                failed[pid] = f"{spy} cannot be executed: {error.strerror}"
                continue
            running[pid] = process, output, errors
        for pid, (process, output, errors) in running.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until + KILLED_SECONDS - time.monotonic()))
                failed[pid] = f"py-spy did not answer within {seconds:.0f} s"
            elif process.returncode == 0 and (text := contents(output)).strip():
                dumps[pid] = text
            else:
                # A backtrace of py-spy itself may follow.
                failed[pid] = f"py-spy failed: {(contents(errors).strip().splitlines() or ['no reason'])[0]}"
            if process.returncode != 0 and "--nonblocking" not in options:
                _resume(pid)
    return dumps


def _resume(pid: int) -> None:
    """Continues a process whose py-spy was killed, or has failed.

    PTRACE_ATTACH sends SIGSTOP. If py-spy ends before the process has received it, on a busy machine, nothing
    else continues the process: the look would stop a rank for ever. SIGCONT also drops a pending SIGSTOP.
    """
    with suppress(OSError):
        os.kill(pid, signal.SIGCONT)


def _by_faulthandler(processes: Sequence[RankProcess], failed: dict[int, str]) -> dict[int, str]:
    """Sends SIGUSR1; returns faulthandler's dump of each process, or the reason why there is none."""
    sent: dict[int, float] = {}
    dumps: dict[int, str] = {}
    for process in processes:
        why = "the script does not call faulthandler.register(signal.SIGUSR1)"
        if catches_signal(process.pid, signal.SIGUSR1):
            now = time.monotonic()
            try:
                os.kill(process.pid, signal.SIGUSR1)
                sent[process.pid] = now
                continue
            except OSError as error:  # it has ended since
                why = f"SIGUSR1 was not sent: {error.strerror}"
        dumps[process.pid] = f"no stacks: {failed[process.pid]}, and {why}"
    until = time.monotonic() + DUMPED_SECONDS
    for process in processes:
        if process.pid in sent:
            text = (
                wait_for_dump(process.output, sent[process.pid], until) if process.output is not None else ""
            )
            dumps[process.pid] = text or "sent SIGUSR1, the stacks are in its own output"
    return dumps


def wait_for_dump(output: WorkerOutput, since: float, until: float) -> str:
    """Returns the dump printed after `since`, once the output is quiet; empty at `until` (monotonic)."""
    while (now := time.monotonic()) < until:
        if output.last_output > since and now - output.last_output > DUMP_QUIET_SECONDS:
            return last_dump(output.tail())
        time.sleep(DUMP_QUIET_SECONDS / 3)
    return ""
