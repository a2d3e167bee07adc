"""Failures in an output as blocks of lines: of Python, C++, shells and launchers. Pure.

Only text that the failing program cannot print by itself proves a failure: what the interpreter prints for an
exception that ends the process, what a library prints as it aborts, what a shell or launcher reports of its
child. A traceback that the program printed itself, as logging does, explains the end of a process, but proves
none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable, NamedTuple

from ma_boot.report.pytest_report import FAILURES, failed_test_at

# Lines of an exception's message after the first one.
MOST_MESSAGE_LINES = 60
# Lines of torchrun's report, which lists each failed rank of a node in eight lines.
MOST_REPORT_LINES = 200
# A progress bar without a newline may stand before the traceback.
_TRACEBACK = (
    r"(?:.{0,500}?(?:it/s|s/it)[^\]]{0,100}\])?(?:Exception Group )?Traceback \(most recent call last\):$"
)
# With a prefix, as a logger adds it, it is of no use as a proof.
_ANY_TRACEBACK = r"(?! {4,}\|).{0,500}Traceback \(most recent call last\):$"
_GROUP = "Exception Group Traceback"
_IN_GROUP = r" {4}\| (\w[\w.]{0,200}(?:Error|Exception|Group|Exit|Interrupt)\b.*)"
_FRAME = r' {2}File "([^"]{1,4096})", line \d{1,9}, in (\S{1,200})'
_ANY_FRAME = r' *File "([^"]{1,4096})", line (\d+)'
# Files of libraries, and programs that pip installs, such as bin/torchrun.
_NOT_OWN = r"/(site|dist)-packages/|/lib/python3|^<|/bin/[^/.]{1,200}$"
_EXCEPTION = r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,200}\))?(?:: ?.*)?$"
# The driver's exception for that of a worker or an actor.
_OF_RAY_WORKER = r"ray\.exceptions\.RayTaskError(?:\([\w.]{1,200}\))?: "
_NAMES_AN_EXCEPTION = r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,200}\))?(?:: |$)"
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
# Weight of a block: its process has ended for it; it printed an exception, of which it may have ended; it
# went on after it.
PROOF, PRINTED, HANDLED = 2, 1, 0
# Lines that continue a message: of CANN, MindSpore, PyTorch and CUDA.
_MESSAGE = (
    r"$|-{10,}$|- [A-Z].{0,100}:$|\[ERROR\] |\[Error\]: |\w{0,100}\(?E[A-Z0-9]\d{4}\)?: |\[PID: "
    r"|mindspore/ccsrc/|frame #\d|Exception raised from |CUDA kernel errors |For debugging consider "
    r"|Compile with "
)
# Lines of CANN below its error code, and those of exception groups.
_BELOW = r"\s{8}|\s{0,4}[|+]"
_SYNTAX = r"(?:Syntax|Indentation|Tab)Error: "
_SYNTAX_FRAME = r' {2}File "[^"]{1,4096}", line \d{1,9}$'
_TERMINATE = (
    r"terminate called (?:after throwing an instance of .{1,500}|without an active exception|recursively)$"
)
_TORCH_RECORD = r"\[E\d{4} [^\]]{1,300}\] (\S.*)"
# glog and Abseil, also as TensorFlow prints them: only fatal records, which abort.
_GLOG = (
    r"(?:F\d{4} |\d{4}-\d\d-\d\d .{1,40}: F )(?:[\d:.]{1,30} {1,10}){0,2}"
    r"(?P<file>[^\s:\]]{1,500}):(?P<line>\d{1,9})\] (?P<words>\S.*)"
)
_GLOG_STACK = r"\*\*\* Check failure stack trace: \*\*\*| {4}@ +"
# Rust since 1.73, and before.
_PANIC = (
    r"thread '(?P<thread>[^']{0,200})'(?: \(\d{1,20}\))? panicked at "
    r"(?:'(?P<words>.*)', )?(?P<file>[^\s:']{1,500}):(?P<line>\d{1,9}):\d{1,9}:?$"
)
# glibc's assert().
_ASSERT = (
    r"(?:[^\s:]{1,500}: )?(?P<file>[^\s:]{1,500}):(?P<line>\d{1,9}): (?P<words>.{1,1000}: Assertion "
    r"[`'].{1,2000}' failed\.)$"
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
    r"|subprocess\.CalledProcessError\b|torch\.multiprocessing\.spawn\.ProcessExitedException\b"
    r"|concurrent\.futures\.process\.BrokenProcessPool\b|RuntimeError: DataLoader worker \(pid"
)
# Between two tracebacks, the second of which explains the end.
CHAINED = "During handling of the above exception|The above exception was the direct cause"
_RULE = r"={10,}$"
_SIGNAL_OF_RANK = r"Signal \d{1,3} \(\w{1,20}\) received by PID \d{1,9}"
_EXIT_OF_RANK = r"  rank +: (\d{1,9}) .*\n  exitcode +: (-?\d{1,9}) "


class FailureBlock(NamedTuple):
    """Lines `start` to `end`, without the last; the failure's message begins in line `at`.

    `words` are the first line of that message, and empty for a block without an exception. `place` is
    `file:line`, or empty. `source` is `OWN`, or that of a report which the failed process may have explained
    before.
    """

    start: int
    end: int
    at: int
    words: str = ""
    place: str = ""
    source: str = OWN
    weight: int = PROOF

    @property
    def is_traceback(self) -> bool:
        """True for an exception of Python, whose message may have several lines of any form."""
        return self.start < self.at < self.end


def failure_blocks(lines: Sequence[str]) -> list[FailureBlock]:
    """Returns the failures among the lines of an output, and all other tracebacks, in order."""
    blocks: list[FailureBlock] = []
    at = 0
    while at < len(lines):
        block = _block_at(lines, at) if lines[at] else None
        if block is not None:
            blocks.append(block)
        at = at + 1 if block is None else block.end
    return _without_survived(lines, blocks)


def _without_survived(lines: Sequence[str], blocks: list[FailureBlock]) -> list[FailureBlock]:
    """Marks tracebacks that a program has logged many times at the same place as no proof."""

    def logged(block: FailureBlock) -> bool:
        return block.start > 0 and re.search(_RECORD, lines[block.start - 1][:500]) is not None

    records = [(block.words, block.place) for block in blocks if block.weight == PROOF and logged(block)]
    survived = {key for key in records if records.count(key) >= MANY} if len(records) >= MANY else set()
    return [
        block._replace(weight=PRINTED) if (block.words, block.place) in survived and logged(block) else block
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
        block = _read_traceback(lines, at + 1)
        return None if block is None else block._replace(start=at, weight=HANDLED)
    is_exception = re.match(r"[\w.]{1,200}(Error|Exception|Interrupt)\b", lines[at + 1])
    return FailureBlock(at, at + 2, at + 1, lines[at + 1], weight=HANDLED) if is_exception else None


def _end_of_frames(lines: Sequence[str], start: int) -> int:
    """Returns the line after the frames of a traceback, which is the exception's first one."""
    end = start + 1
    while end < len(lines) and lines[end][:1].isspace():
        end += 1
    return min(end, len(lines) - 1)


def end_of_message(lines: Sequence[str], start: int) -> int:
    """Returns the line after a message that begins in line `start`.

    A line that is indented far belongs to the line above it, if that is not empty. Trainings indent their
    lines, too, but less.
    """
    end = start + 1
    while end < min(len(lines), start + MOST_MESSAGE_LINES) and continues_message(lines[end], lines[end - 1]):
        end += 1
    return end


def continues_message(line: str, before: str) -> bool:
    """Returns whether a line belongs to the message of which `before` is the line above it."""
    is_below = re.match(_BELOW, line) is not None and bool(before.strip())
    return is_below or re.match(_MESSAGE, line) is not None


def is_exception(line: str) -> bool:
    """Returns whether a line can be the exception below the frames of a traceback."""
    return re.match(_EXCEPTION, line) is not None


def _read_traceback(lines: Sequence[str], at: int) -> FailureBlock | None:
    last = _end_of_frames(lines, at)
    if last == at or not is_exception(lines[last]):
        return _read_any_traceback(lines, at)
    frames, first = lines[at:last], last
    last = _end_of_ray_worker(lines, last)
    exception, place = lines[last], place_of_frames(lines[at:last])
    if not _ends_a_process(lines, at, lines[first]):
        return FailureBlock(at, last + 1, last, exception, place, weight=PRINTED)
    if re.match(_RAISED_BY_LAUNCHER, exception):
        end = _end_of_report(lines, last)
        # Frames of a launcher alone are of no use to the reader.
        place = place if _own_frames(lines[at:last]) else ""
        return FailureBlock(at, end, last, _words_of_launcher(lines[last:end]), place, LAUNCHER)
    end = end_of_message(lines, last)
    group = lines[last:end] if _GROUP in frames[0] else []
    inner = next(filter(None, (re.match(_IN_GROUP, line) for line in group)), None)
    return FailureBlock(at, end, last, f"{exception}: {inner[1]}" if inner else exception, place)


def _read_any_traceback(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads a traceback behind a prefix, or with an exception of an unusual form; it proves nothing."""
    last = _end_of_frames(lines, at)
    if last == at or not lines[last] or lines[last][0].isspace():
        return None
    return FailureBlock(at, last + 1, last, lines[last], place_of_frames(lines[at:last]), weight=PRINTED)


def _end_of_ray_worker(lines: Sequence[str], at: int) -> int:
    """Returns the line of the exception that ended a worker of Ray; that of any other exception is `at`.

    The worker's exception, with its frames, is the message of the driver's.
    """
    while re.match(_OF_RAY_WORKER, lines[at]):
        inner = at + 1
        while inner < len(lines) and (not lines[inner] or lines[inner][0].isspace()):
            inner += 1
        if inner == len(lines) or not re.match(_NAMES_AN_EXCEPTION, lines[inner]):
            break
        at = inner
    return at


def _words_of_launcher(report: Sequence[str]) -> str:
    """Returns what a launcher knows of the process that failed: of torchrun's exception only the report."""
    text = "\n".join(report)
    signal, end = re.search(_SIGNAL_OF_RANK, text), re.search(_EXIT_OF_RANK, text)
    if signal is not None:
        return signal[0]
    return f"{report[0].rstrip(' :')}: rank {end[1]}, exitcode {end[2]}" if end is not None else report[0]


def place_of_frames(lines: Sequence[str]) -> str:
    """Returns the last of these frames in the training's own code; other lines among them are skipped."""
    own = _own_frames(lines) or list(filter(None, (re.match(_ANY_FRAME, line) for line in lines)))
    return f"{short_path(own[-1][1])}:{own[-1][2]}" if own else ""


def _own_frames(lines: Sequence[str]) -> list[re.Match[str]]:
    frames = (re.match(_ANY_FRAME, line) for line in lines)
    return [frame for frame in frames if frame and not re.search(_NOT_OWN, frame[1])]


def short_path(path: str) -> str:
    """Returns the last two parts of a path: `model/train.py`."""
    return "/".join(path.split("/")[-2:]).lstrip("/")


def _ends_a_process(lines: Sequence[str], at: int, exception: str) -> bool:
    """Returns whether the interpreter has printed this traceback, because the exception ended a process.

    Then it begins where the process began. A traceback that the program prints itself begins at the `try`
    that caught the exception, which seldom stands outside of all functions.
    """
    before = lines[at - 1] if at else ""
    frame = re.match(_FRAME, lines[at + 1])
    if not re.match(_TRACEBACK, lines[at]) or frame is None or re.match(_HARMLESS, exception):
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
    return FailureBlock(start, at + 1, at, lines[at], place_of_frames(lines[start:at]))


def _read_terminate(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads the end of a C++ program, with the message of its exception.

    Without an exception, it is what a program prints whose threads outlive the failure above it.
    """
    what = re.match(r"\s{1,20}what\(\): {0,20}(\S.*)?", lines[at + 1]) if at + 1 < len(lines) else None
    end = end_of_message(lines, at + 1 if what else at)
    message = what[1] or next(filter(None, map(str.strip, lines[at + 2 : end])), "") if what else ""
    # Of a watchdog of PyTorch, the record above has the reason.
    record = re.match(_TORCH_RECORD, lines[at - 1]) if at and not message else None
    message = record[1] if record else message
    words = f"{lines[at]}: {message}" if message else lines[at]
    return FailureBlock(at, end, at, words, source=OWN if "instance" in lines[at] else AFTER_DEATH)


def _read_glog(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads a fatal record of a C++ library, and the native stack below it."""
    match = re.match(_GLOG, lines[at])
    if match is None:
        return None
    end = at + 1
    while end < len(lines) and re.match(_GLOG_STACK, lines[end]):
        end += 1
    return FailureBlock(at, end, at, match["words"], f"{short_path(match['file'])}:{match['line']}")


def _read_panic(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads a panic of Rust; outside of the main thread a program may go on after it."""
    match = re.match(_PANIC, lines[at])
    if match is None:
        return None
    inline = match["words"]
    if inline is None and at + 1 == len(lines):
        return None
    weight = PROOF if match["thread"] == "main" else PRINTED
    words, end = (inline, at + 1) if inline is not None else (lines[at + 1], at + 2)
    end += end < len(lines) and lines[end].startswith("note: run with `RUST_BACKTRACE")
    place = f"{short_path(match['file'])}:{match['line']}"
    return FailureBlock(at, end, at, f"panic: {words}", place, weight=weight)


def _read_assert(lines: Sequence[str], at: int) -> FailureBlock | None:
    match = re.match(_ASSERT, lines[at])
    if match is None:
        return None
    return FailureBlock(at, at + 1, at, match["words"], f"{short_path(match['file'])}:{match['line']}")


def _read_fatal(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads what Python prints as it dies by a signal; its stacks begin at the innermost frame."""
    end = at + 1
    while end < len(lines) and re.match(_DUMP, lines[end]):
        end += 1
    thread = next((number for number in range(at, end) if lines[number].startswith("Current thread")), at)
    stop = next((number for number in range(thread + 1, end) if not lines[number]), end)
    place = place_of_frames(lines[thread:stop][::-1])
    return FailureBlock(at, end, at, lines[at], place, AFTER_DEATH)


def _read_shell(lines: Sequence[str], at: int) -> FailureBlock | None:
    """Reads what a shell prints of a command that died by a signal."""
    match = re.match(_BY_SHELL, lines[at])
    if match is None:
        return None
    death, command, script = match["named"] or match["bare"], match["command"], match["script"]
    is_file = script is not None and script.rpartition("/")[2] not in _SHELLS
    place = f"{short_path(script)}:{match['line']}" if is_file else ""
    words = f"{death}: {command}" if command else death
    return FailureBlock(at, at + 1, at, words, place, AFTER_DEATH)


def _read_pytest(lines: Sequence[str], at: int) -> FailureBlock | None:
    test = failed_test_at(lines, at)
    if test is None:
        return None
    return FailureBlock(test.start, test.end, test.end, test.words, short_path(test.place))


def _read_not_started(lines: Sequence[str], at: int) -> FailureBlock | None:
    return FailureBlock(at, at + 1, at, lines[at])


def _read_launcher(lines: Sequence[str], at: int) -> FailureBlock | None:
    return FailureBlock(at, at + 1, at, lines[at], source=LAUNCHER)


_READERS: tuple[tuple[str, Callable[[Sequence[str], int], FailureBlock | None]], ...] = (
    (_TRACEBACK, _read_traceback),
    (_SYNTAX, _read_syntax_error),
    (_TERMINATE, _read_terminate),
    (_GLOG, _read_glog),
    (_PANIC, _read_panic),
    (_ASSERT, _read_assert),
    (_FATAL, _read_fatal),
    (_BY_SHELL, _read_shell),
    (FAILURES, _read_pytest),
    (_NOT_STARTED, _read_not_started),
    (_BY_LAUNCHER, _read_launcher),
    (_HANDLED, _read_handled),
    (_ANY_TRACEBACK, _read_any_traceback),
)
