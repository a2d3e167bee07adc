"""Failures in an output as blocks of lines: of Python, C++, shells and launchers. Pure.

Only text that the failing program cannot print by itself is a failure: what the interpreter prints for an
exception that ends the process, what a library prints as it aborts, what a shell or launcher reports of its
child. A traceback that the program printed itself, as logging does, is a block without words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable, NamedTuple

from ma_boot.report.explain import last_exception, place_of_exception, place_of_frames, short_path
from ma_boot.report.pytest_report import FAILURES, failed_test_at

# Lines of an exception's message after the first one.
MOST_MESSAGE_LINES = 60
# Lines of torchrun's report, which lists each failed rank of a node in eight lines.
MOST_REPORT_LINES = 200
# A progress bar without a newline may stand before the traceback.
_TRACEBACK = (
    r"(?:.{0,500}?(?:it/s|s/it)[^\]]{0,100}\])?(?:Exception Group )?Traceback \(most recent call last\):$"
)
_FRAME = r' {2}File "([^"]{1,4096})", line \d{1,9}, in (\S{1,200})'
_EXCEPTION = r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,200}\))?(?:: ?.*)?$"
# First frames of a process: `python x.py`, `python -m x`, and children of multiprocessing and of PyTorch.
_RUNPY = r"<frozen runpy>$|.*/runpy\.py$"
_CHILD = r".*/multiprocess(?:ing)?/(?:process|spawn)\.py$"
_OF_CHILD = ("_bootstrap", "_wrap")
# Hydra prints the exception that ends a program itself, without the frames of its own.
_BY_HYDRA = "Error executing job with overrides"
# Lines before a traceback that does not end the process: of destructors, threads, exit handlers, logging,
# asyncio, and warnings whose text has a traceback.
_HANDLED = (
    r"Exception ignored |Exception in (?:thread|callback) |Error in atexit\._run_exitfuncs"
    r"|--- Logging error ---|Task exception was never retrieved|future: <"
    r"|\S.{0,500}:\d{1,9}: \w{0,100}Warning: "
)
# An interrupt was sent on purpose; a broken pipe is the end of `python x.py | head`.
_HARMLESS = r"(?:KeyboardInterrupt|SystemExit|GeneratorExit|BrokenPipeError)\b"
# Children of multiprocessing that outlive their parent.
_ORPHANED = r"(?:EOFError|Connection\w{1,20}Error)\b"
# A record of logging. One before a traceback proves nothing, as many programs log before they fail.
_RECORD = r"\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|EXCEPTION)\b|^\[?\d{4}-\d\d-\d\d[ T]|^[IWEF]\d{4} "
# The same traceback so often after a record is a failure that the program has survived.
MANY = 3
# Sources of a block: the process that failed, the shell or Python after its death, the launcher above it.
OWN, AFTER_DEATH, LAUNCHER = "own", "after death", "launcher"
# Lines that continue a message: of CANN, MindSpore, PyTorch, CUDA, and indented ones.
_MESSAGE = (
    r"\s|$|-{10,}$|- [A-Z].{0,100}:$|\[ERROR\] |\[Error\]: |\w{0,100}\(?E[A-Z0-9]\d{4}\)?: |\[PID: "
    r"|mindspore/ccsrc/|frame #\d|Exception raised from |CUDA kernel errors |For debugging consider "
    r"|Compile with "
)
_SYNTAX = r"(?:Syntax|Indentation|Tab)Error: "
_SYNTAX_FRAME = r' {2}File "[^"]{1,4096}", line \d{1,9}$'
_TERMINATE = (
    r"terminate called (?:after throwing an instance of .{1,500}|without an active exception|recursively)$"
)
_FATAL = r"Fatal Python error: .+"
_DUMP = r"(?:Current thread|Thread) 0x| {2}(?:File|<)|Python runtime state|Extension modules: |$"
# bash names the script, its line, the process and the command; dash only the signal. SIGTERM and SIGKILL are
# left out: scripts end their monitors so.
_DEATHS = r"(?P<{}>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)"
_CORE = r"(?: {1,20}\(core dumped\))?"
_BY_SHELL = (
    r"(?P<script>\S{1,4096}): line (?P<line>\d{1,9}): {1,20}\d{1,9} "
    + _DEATHS.format("named")
    + _CORE
    + r"(?: {1,60}(?P<command>\S.*))?$|"
    + _DEATHS.format("bare")
    + _CORE
    + "$"
)
_SHELLS = ("bash", "sh")
# Of a program that never began. Other commands that a script lacks, such as npu-smi, seldom matter.
_NOT_STARTED = (
    r"\S{1,4096}: (?:line )?\d{1,9}: (?:python[\d.]{0,8}|torchrun|msrun|mpirun|deepspeed|accelerate): "
    r"(?:command )?not found$"
    r"|\S{0,4096}python[\d.]{0,8}: (?:can't open file .{1,4096}\[Errno 2\]|No module named )"
)
# Open MPI and DeepSpeed.
_BY_LAUNCHER = (
    r"The first process to do so was:$|mpirun noticed that process rank \d{1,9} "
    r"|.{0,200}\[launch\.py:\d{1,9}:sigkill_handler\].* exits with return code = -?[1-9]\d{0,9}$"
)
_RAISED_BY_LAUNCHER = (
    r"torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError\b"
    r"|subprocess\.CalledProcessError\b"
)
_RULE = r"={10,}$"
_SIGNAL_OF_RANK = r"Signal \d{1,3} \(\w{1,20}\) received by PID \d{1,9}"


class FailureBlock(NamedTuple):
    """Lines `start` to `end`, without the last; `words` are empty if they do not show that a process failed.

    `place` is `file:line`, or empty. `source` is `OWN`, or that of a report which the failed process may have
    explained before.
    """

    start: int
    end: int
    words: str = ""
    place: str = ""
    source: str = OWN


def failure_blocks(lines: Sequence[str]) -> list[FailureBlock]:
    """Returns the failures among the lines of an output, and the tracebacks that are none, in order."""
    blocks: list[FailureBlock] = []
    at = 0
    while at < len(lines):
        block = _block_at(lines, at) if lines[at] else None
        if block is not None:
            blocks.append(block)
        at = at + 1 if block is None else block.end
    return _without_survived(lines, blocks)


def _without_survived(lines: Sequence[str], blocks: list[FailureBlock]) -> list[FailureBlock]:
    """Takes the words from tracebacks that a program has logged many times at the same place."""

    def logged(block: FailureBlock) -> bool:
        return block.start > 0 and re.search(_RECORD, lines[block.start - 1][:500]) is not None

    records = [(block.words, block.place) for block in blocks if block.words and logged(block)]
    survived = {key for key in records if records.count(key) >= MANY} if len(records) >= MANY else set()
    return [
        block._replace(words="") if (block.words, block.place) in survived and logged(block) else block
        for block in blocks
    ]


def _block_at(lines: Sequence[str], at: int) -> FailureBlock | None:
    return next((read(lines, at) for pattern, read in _READERS if re.match(pattern, lines[at])), None)


def _read_handled(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads the line before an exception that does not end the process, and that exception."""
    if at + 1 == len(lines) or lines[at + 1][:1].isspace():
        # Of a warning, its source line follows.
        return None
    if re.match(_TRACEBACK, lines[at + 1]):
        return FailureBlock(at, _end_of_frames(lines, at + 1) + 1)
    is_exception = re.match(r"[\w.]{1,200}(Error|Exception|Interrupt)\b", lines[at + 1])
    return FailureBlock(at, at + 2) if is_exception else None


def _end_of_frames(lines: Sequence[str], start: int) -> int:
    """Returns the line after the frames of a traceback, which is the exception's first one."""
    end = start + 1
    while end < len(lines) and lines[end][:1].isspace():
        end += 1
    return min(end, len(lines) - 1)


def _end_of_message(lines: Sequence[str], start: int) -> int:
    """Returns the line after a message that begins in line `start`."""
    end = start + 1
    while end < min(len(lines), start + MOST_MESSAGE_LINES) and re.match(_MESSAGE, lines[end]):
        end += 1
    return end


def _read_traceback(lines: Sequence[str], at: int) -> FailureBlock | None:
    last = _end_of_frames(lines, at)
    exception = lines[last]
    if last == at or not re.match(_EXCEPTION, exception):
        return None
    if not _ends_a_process(lines, at, exception):
        return FailureBlock(at, last + 1)
    if re.match(_RAISED_BY_LAUNCHER, exception):
        end = _end_of_report(lines, last)
        signal = re.search(_SIGNAL_OF_RANK, "\n".join(lines[last:end]))
        return FailureBlock(at, end, signal[0] if signal else exception, source=LAUNCHER)
    end = _end_of_message(lines, last)
    text = "\n".join(lines[at:end])
    return FailureBlock(at, end, last_exception(text) or exception, place_of_exception(text))


def _ends_a_process(lines: Sequence[str], at: int, exception: str) -> bool:
    """Returns whether the interpreter has printed this traceback, because the exception ended a process.

    Then it begins where the process began. A traceback that the program prints itself begins at the `try`
    that caught the exception, which seldom stands outside of all functions.
    """
    before = lines[at - 1] if at else ""
    frame = re.match(_FRAME, lines[at + 1])
    if frame is None or re.match(_HARMLESS, exception):
        return False
    file, function = frame.groups()
    if function == "<module>" or re.match(_RUNPY, file) or before.startswith(_BY_HYDRA):
        return True
    is_child = function in _OF_CHILD and re.match(_CHILD, file) is not None
    return is_child and not re.match(_ORPHANED, exception)


def _end_of_report(lines: Sequence[str], start: int) -> int:
    """Returns the line after torchrun's report of its failed ranks, which stands between two rules."""
    until = min(len(lines), start + MOST_REPORT_LINES)
    rules = [number for number in range(start, until) if re.match(_RULE, lines[number])]
    return rules[1] + 1 if len(rules) > 1 else start + 1


def _read_syntax_error(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads an error in the program's own file: no traceback, but the line and a caret stand before it."""
    before = range(at - 1, max(-1, at - 5), -1)
    start = next((number for number in before if re.match(_SYNTAX_FRAME, lines[number])), None)
    if start is None or not all(line[:1].isspace() for line in lines[start:at]):
        return None
    return FailureBlock(start, at + 1, lines[at], place_of_frames(lines[start:at]))


def _read_terminate(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads the end of a C++ program, with the message of its exception."""
    what = re.match(r"\s{1,20}what\(\): {1,20}(\S.*)", lines[at + 1]) if at + 1 < len(lines) else None
    words = f"{lines[at]}: {what[1]}" if what else lines[at]
    return FailureBlock(at, _end_of_message(lines, at), words)


def _read_fatal(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads what Python prints as it dies by a signal; its stacks begin at the innermost frame."""
    end = at + 1
    while end < len(lines) and re.match(_DUMP, lines[end]):
        end += 1
    thread = next((number for number in range(at, end) if lines[number].startswith("Current thread")), at)
    stop = next((number for number in range(thread + 1, end) if not lines[number]), end)
    place = place_of_frames(lines[thread:stop][::-1])
    return FailureBlock(at, end, lines[at], place, AFTER_DEATH)


def _read_shell(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads what a shell prints of a command that died by a signal."""
    match = re.match(_BY_SHELL, lines[at])
    if match is None:
        return None
    death, command, script = match["named"] or match["bare"], match["command"], match["script"]
    is_file = script is not None and script.rpartition("/")[2] not in _SHELLS
    place = f"{short_path(script)}:{match['line']}" if is_file else ""
    return FailureBlock(at, at + 1, f"{death}: {command}" if command else death, place, AFTER_DEATH)


def _read_pytest(lines: Sequence[str], at: int) -> FailureBlock | None:
    test = failed_test_at(lines, at)
    return None if test is None else FailureBlock(test.start, test.end, test.words, test.place)


def _read_not_started(lines: Sequence[str], at: int) -> FailureBlock | None:
    return FailureBlock(at, at + 1, lines[at])


def _read_launcher(lines: Sequence[str], at: int) -> FailureBlock | None:
    return FailureBlock(at, at + 1, lines[at], source=LAUNCHER)


_READERS: tuple[tuple[str, Callable[[Sequence[str], int], FailureBlock | None]], ...] = (
    (_TRACEBACK, _read_traceback),
    (_SYNTAX, _read_syntax_error),
    (_TERMINATE, _read_terminate),
    (_FATAL, _read_fatal),
    (_BY_SHELL, _read_shell),
    (FAILURES, _read_pytest),
    (_NOT_STARTED, _read_not_started),
    (_BY_LAUNCHER, _read_launcher),
    (_HANDLED, _read_handled),
)
