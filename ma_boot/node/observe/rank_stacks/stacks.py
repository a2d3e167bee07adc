"""Stacks of a Python process: the calls of each thread, and the activity of the rank. Pure.

py-spy and faulthandler both print the innermost frame first. py-spy's line is `function
(torch/distributed/c10d.py:12)`, and `function (libc.so.6)` for a native frame; faulthandler's is
`File "/.../c10d.py", line 12 in function`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ma_boot.node.observe.collectives.records import RankRecord
from ma_boot.wording import Message

_THREAD = r'^Thread (?P<number>\S+)(?: \([\w+]+\))?(?:: "(?P<name>.*)")?$'
_DUMPED = r"^(?:Current thread|Thread) (?P<number>0x[0-9a-f]{1,16})\b.*\(most recent call first\):$"
_SPY_FRAME = r"^ +(?P<function>\S.*) \((?P<place>[^()]+)\)$"
_DUMPED_FRAME = r'^ +File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$'
_LIBRARY_ROOT = r"^.*/(?:site-packages|dist-packages|python3(?:\.\d+)?)/"
_NATIVE = r"^[^:]*$|\.(c|cc|cpp|cxx|h|hpp|cu|pyx|rs):"
_HEAD = r"\A(?:Process \d+:.*\n|Python v.*\n|\n)+"
_MAIN = "MainThread"
MOST_LINES = 4096  # of stacks that are read once: the ranks of a job have most of theirs in common


class Frame(NamedTuple):
    """A call: `place` is `file:line`, or only a library for native code."""

    function: str
    place: str

    @property
    def is_native(self) -> bool:
        """True for a frame outside of Python."""
        return _is_native(self.place)

    @property
    def name(self) -> str:
        """The function without its class, which py-spy adds since Python 3.11."""
        return self.function.rpartition(".")[2]

    @property
    def file(self) -> str:
        """The place without its line."""
        return self.place.rpartition(":")[0]

    @property
    def line(self) -> int:
        """The line in the file, 0 if it is not known."""
        line = self.place.rpartition(":")[2]
        return int(line) if line.isdecimal() else 0

    def __str__(self) -> str:
        return f"{self.function} ({self.place})"


@lru_cache(maxsize=MOST_LINES)
def _is_native(place: str) -> bool:
    return re.search(_NATIVE, place) is not None


Calls = tuple[Frame, ...]  # of a thread, the innermost first


def threads_of(text: str) -> tuple[Calls, ...]:
    """The threads of one process, its main thread first; nothing for a text that has none."""
    named = [(name, calls) for _, name, calls in _threads(text)]
    return tuple(calls for _, calls in sorted(named, key=lambda thread: not _is_main(*thread)))


def numbered_threads(text: str) -> dict[str, Calls]:
    """The threads of one process by the number that the tool has printed."""
    return {number: calls for number, _, calls in _threads(text)}


def _threads(text: str) -> list[tuple[str, str, Calls]]:
    """The number, name and calls of each thread that has calls."""
    threads: list[tuple[str, str, list[Frame]]] = []
    for line in text.splitlines():
        frame = _frame(line)
        if frame is None:
            head = re.match(_DUMPED, line) or re.match(_THREAD, line)
            if head:
                threads.append((head.group("number"), head.groupdict().get("name") or "", []))
        elif threads:
            threads[-1][2].append(frame)
    return [(number, name, tuple(calls)) for number, name, calls in threads if calls]


@lru_cache(maxsize=MOST_LINES)
def _frame(line: str) -> Frame | None:
    dumped = re.match(_DUMPED_FRAME, line)
    if dumped:
        file = re.sub(_LIBRARY_ROOT, "", dumped.group("file"))
        return Frame(dumped.group("function"), f"{file}:{dumped.group('line')}")
    shown = re.match(_SPY_FRAME, line)
    return Frame(shown.group("function"), shown.group("place")) if shown else None


def _is_main(name: str, calls: Calls) -> bool:
    outermost = [frame for frame in calls if not frame.is_native][-1:]
    is_module = any(frame.function == "<module>" for frame in outermost)
    return name == _MAIN or (not name and is_module)


def without_head(text: str) -> str:
    """The stacks without py-spy's lines on the process, which differ in each rank."""
    return re.sub(_HEAD, "", text).strip("\n")


def without_helper(text: str) -> str:
    """Removes the thread that waits for ma_boot in each rank (`sitecustomize`), which is no work of it."""
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) )", text)
    return "".join(thread for thread in threads if not re.search(r"\bwait_for_ma_boot\b", thread))


def last_dump(output: str) -> str:
    """The last stacks that faulthandler has printed into an output; empty if there are none."""
    lines = output.splitlines()
    dumped = [number for number, line in enumerate(lines) if re.match(_DUMPED, line)]
    if not dumped:
        return ""
    start = dumped[-1]
    while start > 0 and (
        re.match(_DUMPED_FRAME, lines[start - 1])
        or re.match(_DUMPED, lines[start - 1])
        or not lines[start - 1]
    ):
        start -= 1
    end = dumped[-1] + 1
    while end < len(lines) and re.match(_DUMPED_FRAME, lines[end]):
        end += 1
    return "\n".join(line for line in lines[start:end] if line)


COLLECTIVE, GRADIENT, DEVICE, MESSAGE, OWN = "collective", "gradient", "device", "message", "own"
# Names that mean nothing else, and those that do so only in a library of collective communication.
_COLLECTIVE = (
    r"(?i)(monitored_)?barrier$|_?all_?(reduce|gather|to_?all)|alltoall|reduce_?scatter|broadcast(_|$)|bcast$"
    r"|(hccl|hcom|nccl)_?(all|reduce|broadcast|barrier|scatter|gather)|gloo::(all|barrier|broadcast|reduce)"
    r"|P?MPI_I?(barrier|all|bcast|reduce|gather|scatter)|mindspore::\S*::Collective(OpsImpl::|Wait)"
)
_COLLECTIVE_THERE = r"(?i)_?(gather|scatter|reduce|wait|join)(_|$)"
_MESSAGE_THERE = r"(?i)_?(i?send|i?recv|batch_isend_irecv|sendrecv)(_|$)"
# A request of MPI is mostly one of a message.
_MESSAGE = (
    r"(?i)(hccl|hcom|nccl)_?(send|recv|receive)|P?MPI_[ibrs]*(send|recv)"
    r"|P?MPI_((wait|test)(all|any|some)?|i?m?probe)$"
)
_THERE = r"(?i)distributed|communication|collective|hccl|nccl|gloo|mpi4py|horovod|comm_func|p2p"
_DEVICE = r"(?i)synchronize$|asnumpy$|_?sync_?stream|stream_?sync|rtStreamSynchronize|aclrtSynchronize"
# Where a rank of torch waits for others without a word of it: DDP's gradients, a value of the device.
_GRADIENT = r"backward$|_engine_run_backward$|item$|tolist$"
_GRADIENT_THERE = r"^torch/|^mindspore/"
OWN_WORK = (
    (r"(?i)data_?(loader|set|pipe|iter)|next_?batch|minddata", "loading data in {}"),
    (r"(?i)checkpoint|save|ckpt", "saving in {}"),
    (r"(?i)compil", "compiling in {}"),
    (
        r"(?i)(^| |_|\.)(read|open|load|write|fsync|flush|copy)|(^|/)(io|shutil|pathlib)\.py",
        "reading or writing in {}",
    ),
)
_LIBRARIES = (
    r"^(torch|torch_npu|mindspore|megatron|deepspeed|numpy|multiprocessing|concurrent|asyncio|importlib|http|urllib"
    r"|json|re|logging|collections|ctypes|encodings|email)/|^<frozen|^(threading|queue|selectors|socket|ssl|copy|io"
    r"|subprocess|contextlib|runpy|functools|os|pickle|tempfile|shutil|pathlib|time|inspect|dataclasses|typing|enum"
    r"|random|traceback|warnings|weakref|gzip|hashlib|linecache|signal|struct|tarfile|zipfile|codecs|ast)\.py"
)


class Activity(NamedTuple):
    """`kind` is one of the words above; `at` is the call that shows it, `by` the user's own innermost call;
    `key` is equal for ranks that do the same at the same place."""

    kind: str
    at: Frame | None
    by: Frame | None
    key: tuple[str, ...]
    template: str = "in {}"

    @property
    def loads(self) -> bool:
        """True for work of the rank itself, such as loading data: it waits for no other rank."""
        return self.kind == OWN and self.template != "in {}"

    def doing(self) -> str:
        """The activity as a phrase: `in all_reduce (...), called by train (train.py:3)`."""
        if self.at is None:
            return Message.of("without a Python stack")
        place = str(self.at)
        if self.by is not None and self.by != self.at:
            place = Message.of("{}, called by {}", place, self.by)
        return Message.of(self.template, place)


def activity(threads: Sequence[Calls]) -> Activity:
    """Returns the activity of the main thread, which is the first one."""
    frames = threads[0] if threads else ()
    for position, frame in reversed(list(enumerate(frames))):  # the outermost such call is the user's word
        kind = _kind(frame)
        if kind is not None:
            outer = [frame for frame in frames[position:] if not frame.is_native]
            by = next(filter(_is_own, outer), None)
            doing = "waiting for the device in {}" if kind == DEVICE else "in {}"
            return Activity(kind, frame, by, (kind, frame.name, *map(str, outer)), doing)
    python = [frame for frame in frames if not frame.is_native]
    by = next(filter(_is_own, python), None)
    at = by or next(iter([*python, *frames]), None)
    calls = " ".join(map(str, python))
    doing = next((text for pattern, text in OWN_WORK if re.search(pattern, calls)), "in {}")
    return Activity(OWN, at, by, (OWN, *map(str, _without_waiting(python))), doing)


@lru_cache(maxsize=MOST_LINES)
def _kind(frame: Frame) -> str | None:
    is_library = re.search(_THERE, frame.place)
    if re.match(_COLLECTIVE, frame.name) or (is_library and re.match(_COLLECTIVE_THERE, frame.name)):
        return COLLECTIVE
    if re.match(_MESSAGE, frame.name) or (is_library and re.match(_MESSAGE_THERE, frame.name)):
        return MESSAGE
    if re.match(_GRADIENT, frame.name) and re.search(_GRADIENT_THERE, frame.place):
        return GRADIENT
    return DEVICE if re.match(_DEVICE, frame.name) else None


def _without_waiting(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The calls without the inner ones of libraries: who polls is now in one of them, now in another."""
    own = [number for number, frame in enumerate(frames) if _is_own(frame)]
    return frames[own[0] :] if own else frames


@lru_cache(maxsize=MOST_LINES)
def _is_own(frame: Frame) -> bool:
    """Returns whether a frame is in the user's code, not in a library."""
    return re.search(_LIBRARIES, frame.place) is None


UNKNOWN = 1e9  # seconds
# Exit code of an ended rank that only its parent, a start script, has read.
UNKNOWN_CODE = -1


class RankAtHang(NamedTuple):
    """`stack` is what py-spy or faulthandler printed, or why there is nothing.

    `quiet` are the seconds without output and CPU time, `waits_for` the ranks that HCCL says it waits for,
    `ended` its exit code if it has ended (or `UNKNOWN_CODE`), `state` the letter of proc(5) for its main
    thread, and `printed` the seconds since its last output. `progress` is that between several stacks
    (`stack_samples`), empty for a rank whose stacks were taken once. `record` are its collectives, None if
    they are not known.
    """

    rank: int
    node: int
    stack: str = ""
    quiet: float = 0.0
    waits_for: tuple[int, ...] = ()
    ended: int | None = None
    state: str = ""
    printed: float = UNKNOWN
    progress: str = ""
    record: RankRecord | None = None


class Fold(NamedTuple):
    """Ranks whose main threads do the same at the same place, and the stacks of the first of them."""

    ranks: tuple[int, ...]
    stack: str


def folded(ranks: Sequence[RankAtHang]) -> tuple[Fold, ...]:
    """A rank is in exactly one fold; those without stacks are folded by the reason."""
    groups: dict[tuple[str, ...], list[RankAtHang]] = {}
    for rank in sorted(ranks):
        groups.setdefault(_key(rank), []).append(rank)
    folds = [Fold(tuple(rank.rank for rank in group), _shown(group[0])) for group in groups.values()]
    return tuple(sorted(folds, key=lambda fold: (len(fold.ranks), fold.ranks)))


def _key(rank: RankAtHang) -> tuple[str, ...]:
    threads = threads_of(rank.stack)
    return activity(threads).key if threads else (_shown(rank),)


def _shown(rank: RankAtHang) -> str:
    if rank.ended is not None:
        return "has ended" if rank.ended == UNKNOWN_CODE else f"has ended with exit code {rank.ended}"
    return without_head(rank.stack) or "no stacks"
