"""Explains the end of a process by its exit code, and reads outputs as lines. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from ma_boot.errors import signal_name
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

# Codes of SIGKILL; launchers pass on -15 and -9 as 241 and 247.
KILLED = (137, 247)
_PASSED_ON = {241: signal.SIGTERM, 247: signal.SIGKILL}
# What a shell or the kernel means by these codes; 134 and 139 as in ModelArts' troubleshooting guide. Those
# above 128 are of processes that died by a signal.
EXIT_CODES: Mapping[int, Message] = {
    126: Message.of("the command cannot be executed"),
    127: Message.of("the command, or one that it runs, does not exist"),
    132: Message.of("illegal instruction: a package was built for a different CPU"),
    134: Message.of("abort: the process or one of its libraries aborted"),
    135: Message.of("bus error: /dev/shm or the disk of a mapped file may be full"),
    137: Message.of("killed by SIGKILL, not by ma_boot"),
    139: Message.of("segmentation fault: usually incompatible packages"),
    143: Message.of("terminated by SIGTERM, not by ma_boot"),
}
# Escape sequences: CSI (colours), OSC (titles), and single characters.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
TRACEBACK = "Traceback (most recent call last):"
_GROUP = "Exception Group Traceback"
# PyTorch begins each line of a traceback within a process group so, and torchrun --tee each line of a rank.
_TORCH_PREFIX = r"^(?:\[default\d{1,9}\]:)?(?:\[rank\d+\]: ?)?"
# Messages of Python, of programs such as cat, and of shells.
_MISSING_FILES = (
    r"No such file or directory: b?(['\"])(?P<file>.{1,4096}?)\1",
    r"can't open file (['\"])(?P<file>.{1,4096}?)\1: \[Errno 2\]",
    r"(?:^|[: ])['\"]?(?P<file>[^:'\" ]+)['\"]?: No such file or directory$",
)
# Reports of torchrun and accelerate, of PyTorch's DataLoader, and of DeepSpeed.
_SIGKILL_BELOW = (
    r"^ *exitcode +: -9 \(pid: |DataLoader worker \(pid \d+\) is killed by signal: Killed"
    r"|exits with return code = -9$"
)
_MPIRUN_TAG = r"\[\d+,{}\]<(?:stdout|stderr)>: ?"
# Open MPI 4.
_MPIRUN_FAILURES = (
    r"The first process to do so was:\s+Process name: \[\[\d+,\d+\],\s?(\d{1,9})\]",
    r"mpirun noticed that process rank (\d{1,9}) with PID \d+ on node \S+ exited on signal",
)
_MPIRUN_FAILURE_OF_A_RANK = r"Primary job\s+terminated normally, but \d+ process"


def explanation(ended: WorkerExit) -> str | None:
    """Explains an end; None if the exit code is the program's own.

    ModelArts' troubleshooting guide takes both codes of SIGKILL for out of memory; here the kernel's OOM
    counters decide.
    """
    if ended.oom is not None:
        return out_of_memory(ended.oom)
    if ended.signal == signal.SIGKILL:
        return Message.of(
            "SIGKILL, not from ma_boot, and the kernel counted no OOM kill: look for the sender in the job's "
            "events and in the logs of the other nodes"
        )
    meaning = meaning_of(ended.code, ended.signal)
    return Message.of("{}; the kernel counted no OOM kill", meaning) if ended.code in KILLED else meaning


def out_of_memory(evidence: str) -> str:
    """Describes an OOM kill with its evidence."""
    return Message.of("out of memory: {}", evidence)


def meaning_of(code: int, by: int | None) -> str | None:
    """Explains an exit code; None if it is the program's own.

    `by` is the signal that ended the process, None if none was seen: then a code is no more than what shells
    and launchers use for a signal, and may be the program's own all the same.
    """
    number = _PASSED_ON.get(code, code - 128)
    if by is not None or not 0 < number < 32:
        return EXIT_CODES.get(code)
    name = signal_name(number)
    return Message.of("a shell or launcher uses this code for signal {}, {}", int(number), name)


def tells_of_sigkill(output: str) -> bool:
    """Returns whether a launcher or a rank reports that SIGKILL ended one of its processes."""
    return re.search(_SIGKILL_BELOW, output, re.MULTILINE) is not None


def last_line(output: str) -> str:
    """Returns the last line that is not empty."""
    return next((line.strip() for line in reversed(output_lines(output)) if line.strip()), "")


def missing_files(output: str) -> list[str]:
    """Returns the paths that a program or its shell did not find, the last one first."""
    files = [
        match.group("file")
        for line in reversed(output_lines(output))
        for match in (re.search(pattern, line) for pattern in _MISSING_FILES)
        if match
    ]
    return list(dict.fromkeys(files))


def failed_mpi_rank(output: str) -> int | None:
    """Returns the rank that mpirun reports as the first to fail; None for any other output."""
    match = next(filter(None, (re.search(pattern, output) for pattern in _MPIRUN_FAILURES)), None)
    return int(match.group(1)) if match else None


def some_mpi_rank_failed(output: str) -> bool:
    """Returns whether mpirun reports a failed rank without its number, as before all ranks have started."""
    return re.search(_MPIRUN_FAILURE_OF_A_RANK, output) is not None


def output_of_failed_rank(output: str) -> str:
    """Extracts the output of the first failed rank from a launcher's output; other output is unchanged.

    If mpirun does not name the failed rank, the first one with a traceback counts. With `--tag-output`, Open
    MPI tags each piece that it reads, which may begin in the middle of a line; the tags are removed.
    """
    rank = failed_mpi_rank(output)
    if rank is None and some_mpi_rank_failed(output):
        raised = re.search(_MPIRUN_TAG.format(r"(\d{1,9})") + re.escape(TRACEBACK), output)
        rank = int(raised.group(1)) if raised else None
    if rank is None:
        return output
    tag = re.compile(_MPIRUN_TAG.format(rank))
    return "\n".join(tag.sub("", line) for line in output.splitlines() if tag.match(line)) or output


def without_escapes(text: str) -> str:
    """Removes escape sequences for colours and titles, which Ray, rich and loguru print everywhere."""
    return re.sub(_ESCAPES, "", text) if "\x1b" in text else text


def without_rank_prefix(line: str) -> str:
    """Removes the prefix with which PyTorch and torchrun begin the lines of a rank."""
    return re.sub(_TORCH_PREFIX, "", line)


def output_lines(text: str) -> list[str]:
    """Splits an output into lines without colours, PyTorch's rank prefix and the bar beside exception groups.

    Of a progress bar only the last state is kept.
    """
    lines = without_escapes(text).replace("\r\n", "\n").rstrip("\n").split("\n")
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    prefix = rf"{_TORCH_PREFIX}|^  [|+] " if _GROUP in text else _TORCH_PREFIX
    return [re.sub(prefix, "", line) for line in shown] if text else []
