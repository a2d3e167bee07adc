"""Explains the end of a process by its exit code and the end of its output. Pure."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping, Sequence

from ma_boot.errors import signal_name
from ma_boot.report.pytest_report import find_failed_test
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

TAIL_LINES = 20
MOST_TRACEBACK_LINES = 30
MOST_MESSAGE_LINES = 20
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
# Lines that libraries print after the exception that ends a process. More lines mean that it went on.
MOST_LINES_AFTER = 40
MOST_LINES_AFTER_STOPPED = 15
# Escape sequences: CSI (colours), OSC (titles), and single characters.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
_TRACEBACK = "Traceback (most recent call last):"
_GROUP = "Exception Group Traceback"
_IN_GROUP = r" {4}\| (\w[\w.]{0,200}(?:Error|Exception|Group|Exit|Interrupt)\b.*)"
# A frame of a traceback: its file and line.
_FRAME = r' *File "([^"]{1,4096})", line (\d+)'
# Files of libraries.
_NOT_OWN = r"/(site|dist)-packages/|/lib/python3|^<"
# The driver's exception for that of a worker or an actor.
_OF_RAY_WORKER = r"ray\.exceptions\.RayTaskError(?:\([\w.]{1,200}\))?: "
_NAMES_AN_EXCEPTION = r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,200}\))?(?:: |$)"
_CHAINED = r"(During handling of the above exception|The above exception was the direct cause)"
# PyTorch begins each line of a traceback within a process group so.
_TORCH_PREFIX = r"^\[rank\d+\]: ?"
_TELLS_OF_AN_ERROR = (
    r"^\w+(\.\w+)*(Error|Exception|Interrupt)\b|(?i:\b(error|fatal|panic|abort(ed)?)\b ?[:(\]]"
    r"|terminate called|no such file|not found$|permission denied|cannot |no module named)"
)
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
_TORCHRUN_FAILED = r"(?m)^torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError"
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


def last_words(output: str) -> list[str]:
    """Returns the last Python traceback of an output, with its chained ones, or else the last 20 lines."""
    lines = output_lines(output)
    starts = _tracebacks(lines)
    if not starts:
        return lines[-TAIL_LINES:]
    end = _end_of_traceback(lines, starts[-1])
    while len(starts) > 1 and any(re.search(_CHAINED, line) for line in lines[starts[-2] : starts[-1]]):
        starts.pop()
    traceback = lines[starts[-1] : end]
    if len(traceback) <= MOST_TRACEBACK_LINES:
        return traceback
    return [*traceback[:2], "  ...", *traceback[3 - MOST_TRACEBACK_LINES :]]


def last_exception(output: str, most: float = math.inf) -> str | None:
    """Returns the exception of the last Python traceback, such as `ValueError: no such layer`.

    The first exception of an exception group is appended to it. None if more than `most` lines remain from it
    on.
    """
    lines = output_lines(output)
    start, at = _last_traceback(lines)
    if at is None or len(lines) - at > most:
        return None
    group = lines[at:] if _GROUP in lines[start] else []
    inner = next(filter(None, (re.match(_IN_GROUP, line) for line in group)), None)
    return f"{lines[at]}: {inner[1]}" if inner else lines[at]


def exception_at_end(output: str, stopped: bool = False) -> str | None:
    """Returns the last exception, unless so much output follows that the program has handled it.

    The limit is lower for a process that was `stopped`, as it may have gone on training.
    """
    most = MOST_LINES_AFTER_STOPPED if stopped else MOST_LINES_AFTER
    lines = output_lines(output)
    test = find_failed_test(lines)
    if test is not None and len(lines) - test.end < most:
        return test.words
    return last_exception(output, most)


def place_of_exception(output: str) -> str:
    """Returns the last frame of the last traceback in the training's own code: `model/train.py:17`."""
    lines = output_lines(output)
    test = find_failed_test(lines)
    if test is not None:
        return test.place
    starts = _tracebacks(lines)
    return place_of_frames(lines[starts[-1] : _end_of_traceback(lines, starts[-1])] if starts else [])


def place_of_frames(lines: Sequence[str]) -> str:
    """Returns the last of these frames in the training's own code; other lines among them are skipped."""
    frames = list(filter(None, (re.match(_FRAME, line) for line in lines)))
    own = [frame for frame in frames if not re.search(_NOT_OWN, frame[1])] or frames
    return f"{short_path(own[-1][1])}:{own[-1][2]}" if own else ""


def short_path(path: str) -> str:
    """Returns the last two parts of a path: `model/train.py`."""
    return "/".join(path.split("/")[-2:]).lstrip("/")


def own_words(output: str, stopped: bool = False) -> str | None:
    """Returns the exception at the end of an output, else its last line that looks like an error."""
    return exception_at_end(output, stopped) or error_line(output)


def error_line(output: str) -> str | None:
    """Returns the last line that looks like an error, among the last 20 after the last traceback."""
    lines = output_lines(output)
    _, at = _last_traceback(lines)
    rest = [line.strip() for line in lines[0 if at is None else at + 1 :][-TAIL_LINES:]]
    return next((line for line in reversed(rest) if re.search(_TELLS_OF_AN_ERROR, line)), None)


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

    torchrun's own traceback at the end is removed: it only repeats the failure. If mpirun does not name the
    failed rank, the first one with a traceback counts. With `--tag-output`, Open MPI tags each piece that it
    reads, which may begin in the middle of a line; the tags are removed.
    """
    rank = failed_mpi_rank(output)
    if rank is None and some_mpi_rank_failed(output):
        raised = re.search(_MPIRUN_TAG.format(r"(\d{1,9})") + re.escape(_TRACEBACK), output)
        rank = int(raised.group(1)) if raised else None
    if rank is None:
        return _before_torchruns_end(output)
    tag = re.compile(_MPIRUN_TAG.format(rank))
    return "\n".join(tag.sub("", line) for line in output.splitlines() if tag.match(line)) or output


def _before_torchruns_end(output: str) -> str:
    """Removes torchrun's traceback, if there is another one before it."""
    before, traceback, end = output.rpartition(f"\n{_TRACEBACK}\n")
    return before if traceback and _TRACEBACK in before and re.search(_TORCHRUN_FAILED, end) else output


def _tracebacks(lines: Sequence[str]) -> list[int]:
    """Returns the first line of each traceback; those of exceptions in a group belong to the group's."""
    return [
        number for number, line in enumerate(lines) if _TRACEBACK in line and not re.match(r" {4,}\|", line)
    ]


def _last_traceback(lines: Sequence[str]) -> tuple[int, int | None]:
    """Returns the first line of the last traceback, and the line of its exception, if there is one.

    An exception of Ray's worker, with its frames, is the message of the driver's: the worker's is returned.
    """
    starts = _tracebacks(lines)
    after = range(starts[-1] + 1, len(lines)) if starts else ()
    outer = (number for number in after if lines[number] and not lines[number][0].isspace())
    at = next(outer, None)
    while at is not None and re.match(_OF_RAY_WORKER, lines[at]):
        inner = next(outer, None)
        if inner is None or not re.match(_NAMES_AN_EXCEPTION, lines[inner]):
            break
        at = inner
    return (starts[-1] if starts else 0), at


def _end_of_traceback(lines: Sequence[str], start: int) -> int:
    """Returns the line after a traceback: its frames are indented, the exception's message may have several
    lines.
    """
    end = start + 1
    while end < len(lines) and (not lines[end] or lines[end][0].isspace()):
        end += 1
    message = end
    while end < len(lines) and lines[end].strip() and end < message + MOST_MESSAGE_LINES:
        end += 1
    return end


def without_escapes(text: str) -> str:
    """Removes escape sequences for colours and titles, which Ray, rich and loguru print everywhere."""
    return re.sub(_ESCAPES, "", text) if "\x1b" in text else text


def output_lines(text: str) -> list[str]:
    """Splits an output into lines without colours, PyTorch's rank prefix and the bar beside exception groups.

    Of a progress bar only the last state is kept.
    """
    lines = without_escapes(text).replace("\r\n", "\n").rstrip("\n").split("\n")
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    prefix = rf"{_TORCH_PREFIX}|^  [|+] " if _GROUP in text else _TORCH_PREFIX
    return [re.sub(prefix, "", line) for line in shown] if text else []
