"""What a rank does, by the calls of its main thread: a collective, a message, or its own work. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Sequence, Tuple

from ma_boot.hangs.stacks import Frame, ThreadStack

COLLECTIVE, DEVICE, MESSAGE, OWN = "collective", "device", "message", "own"
# Names that mean nothing else, and those that do so only in a library of collective communication.
_COLLECTIVE = (
    r"(?i)(monitored_)?barrier$|_?all_?(reduce|gather|to_?all)|alltoall|reduce_?scatter|broadcast(_|$)|bcast$"
    r"|(hccl|hcom|nccl)_?(all|reduce|broadcast|barrier|scatter|gather)|gloo::(all|barrier|broadcast|reduce)"
)
_COLLECTIVE_THERE = r"(?i)_?(gather|scatter|reduce|wait|join)(_|$)"
_MESSAGE_THERE = r"(?i)_?(i?send|i?recv|batch_isend_irecv|sendrecv)(_|$)"
_MESSAGE = r"(?i)(hccl|hcom|nccl)_?(send|recv|receive)"
_THERE = r"(?i)distributed|communication|collective|hccl|nccl|gloo|mpi4py|horovod|comm_func|p2p"
_DEVICE = r"(?i)synchronize$|asnumpy$|_?sync_?stream|stream_?sync|rtStreamSynchronize|aclrtSynchronize"
_OWN_WORK = (
    (r"(?i)data_?(loader|set|pipe|iter)|next_?batch|minddata", "loading data in"),
    (r"(?i)checkpoint|save|ckpt", "saving in"),
    (r"(?i)compil", "compiling in"),
    (
        r"(?i)(^| |_|\.)(read|open|load|write|fsync|flush|copy)|(^|/)(io|shutil|pathlib)\.py",
        "reading or writing in",
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
    at: Optional[Frame]
    by: Optional[Frame]
    key: Tuple[str, ...]
    verb: str = "in"

    def doing(self) -> str:
        """What follows "is" or "are": `in all_reduce (...), called by train (train.py:3)`."""
        if self.at is None:
            return "without a Python stack"
        place = f", called by {self.by}" if self.by is not None and self.by != self.at else ""
        return f"{self.verb} {self.at}{place}"


def activity(threads: Sequence[ThreadStack]) -> Activity:
    """What the main thread, which is the first one, does."""
    frames = threads[0].frames if threads else ()
    for position, frame in reversed(list(enumerate(frames))):  # the outermost such call is the user's word
        kind = _kind(frame)
        if kind is not None:
            outer = [one for one in frames[position:] if not one.is_native]
            by = next(filter(_is_own, outer), None)
            verb = "waiting for the device in" if kind == DEVICE else "in"
            return Activity(kind, frame, by, (kind, frame.name, *map(str, outer)), verb)
    python = [frame for frame in frames if not frame.is_native]
    by = next(filter(_is_own, python), None)
    at = by or next(iter([*python, *frames]), None)
    calls = " ".join(map(str, python))
    verb = next((text for pattern, text in _OWN_WORK if re.search(pattern, calls)), "in")
    return Activity(OWN, at, by, (OWN, *map(str, _without_waiting(python))), verb)


def _kind(frame: Frame) -> Optional[str]:
    there = re.search(_THERE, frame.place)
    if re.match(_COLLECTIVE, frame.name) or (there and re.match(_COLLECTIVE_THERE, frame.name)):
        return COLLECTIVE
    if re.match(_MESSAGE, frame.name) or (there and re.match(_MESSAGE_THERE, frame.name)):
        return MESSAGE
    return DEVICE if re.match(_DEVICE, frame.name) else None


def _without_waiting(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The calls without the inner ones of libraries: who polls is now in one of them, now in another."""
    own = [number for number, frame in enumerate(frames) if _is_own(frame)]
    return frames[own[0] :] if own else frames


def _is_own(frame: Frame) -> bool:
    """Whether it is the user's code, not that of a library."""
    return re.search(_LIBRARIES, frame.place) is None
