"""Runs tools of drivers (npu-smi, hccn_tool), which may hang or print without end."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import BinaryIO, NamedTuple

from ma_boot.processes.signals import signal_group
from ma_boot.redact import without_secret_variables

# Seconds; npu-smi is slow while the NPUs are busy.
TOOL_SECONDS = 30.0
# Bytes of output; a tool that prints more has failed.
LONGEST_ANSWER = 1 << 20
# Exit codes of timeout(1) and of a shell for a program that cannot be executed.
GAVE_UP, NOT_STARTED = 124, 126
# Seconds between two looks at the event that cancels a tool.
_POLL_SECONDS = 0.1


class ToolResult(NamedTuple):
    """The exit code of a tool and its output; for `GAVE_UP` and `NOT_STARTED` the reason instead."""

    code: int
    text: str


def run_tool(
    argv: Sequence[str],
    environ: Mapping[str, str] | None = None,
    cancel: Event | None = None,
    *,
    with_stderr: bool = False,
    seconds: float = TOOL_SECONDS,
) -> ToolResult:
    """Runs a tool and returns its standard output, with `with_stderr` also its standard error.

    It has `seconds` for its answer, and gets the variables in `environ` that are no secrets, without
    `environ` those of this process. `GAVE_UP` is returned for a tool that times out, prints too much, or is
    cancelled. It is killed but not reaped, as it may be stuck in the driver.
    """
    with memory_file() as output:
        try:
            process = subprocess.Popen(
                argv,
                env=None if environ is None else without_secret_variables(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if with_stderr else subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return ToolResult(NOT_STARTED, str(error.strerror))
        if not _has_ended(process, cancel or Event(), seconds):
            return ToolResult(GAVE_UP, f"no answer within {seconds:.0f} s")
        if output.tell() >= LONGEST_ANSWER:
            return ToolResult(GAVE_UP, f"it prints more than {LONGEST_ANSWER} bytes")
        return ToolResult(process.returncode, contents(output))


def _has_ended(process: subprocess.Popen[bytes], cancel: Event, seconds: float) -> bool:
    """Waits for the end of a process; kills it, with its children, at the timeout."""
    until = time.monotonic() + seconds
    while not cancel.is_set() and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
            return True
    signal_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
    return False


def memory_file() -> BinaryIO:
    """Creates a file in memory for the output of a tool, with a fixed size of `LONGEST_ANSWER` bytes.

    A pipe would stay open as long as a child of the tool runs.
    """
    descriptor = os.memfd_create("tool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, LONGEST_ANSWER)
    # A tool that prints without end gets an error, and uses no more memory.
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return os.fdopen(descriptor, "r+b", buffering=0)


def contents(file: BinaryIO) -> str:
    """Returns the output of a tool in its memory file; the tool has moved the position of the file."""
    return os.pread(file.fileno(), file.tell(), 0).decode("utf-8", "replace")
