"""Asks the ranks of this node for their records of collectives, and reads what they write.

NCCL's and HCCL's records are pickles. Only plain values are read of them: a pickle can name any function, and
the training's directory may be written by others.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ma_boot.node.observe.collectives.records import RankRecord, decode_dump

# Seconds; gloo writes its record at once, NCCL looks at its pipe once a second. Stacks are read meanwhile.
ANSWER_SECONDS = 3.0
# Seconds between two looks for the answers.
LOOK_SECONDS = 0.05
MOST_BYTES = 64 << 20  # of a dump
# Directory of the pipes and of gloo's records, for `sitecustomize` of `for_training`.
DIRECTORY = "MABOOT_RECORDS"
# PyTorch's FlightRecorder.cpp (DebugInfoWriter) and ProcessGroupNCCL.hpp (DumpPipe); torch_npu's
# ProcessGroupHCCL.cpp and .hpp. The number of the rank follows, and `.pipe` for a pipe.
PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_HCCL_DEBUG_INFO_TEMP_FILE")
PIPES = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_HCCL_DEBUG_INFO_PIPE_FILE")


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values: containers, numbers, texts and None need no name of a module."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"refused: the pickle names {module[:60]}.{name[:60]}")


class RecordRead(NamedTuple):
    """The record of a rank, or why it was not read; both are empty if there is none."""

    record: RankRecord | None = None
    refused: str = ""


def parse_dump(data: bytes) -> RecordRead:
    """Parses a dump: JSON of gloo, or a pickle of NCCL or HCCL."""
    try:
        if data[:1] == b"{":
            value = json.loads(data)
            return RecordRead(decode_dump(value.get("record"), value.get("members")))
        return RecordRead(decode_dump(_PlainUnpickler(io.BytesIO(data)).load()))
    except pickle.UnpicklingError as error:
        return RecordRead(refused=str(error))
    # A torn or hostile dump may raise anything.
    except Exception as error:
        return RecordRead(refused=type(error).__name__)


def read_dump(file: str, since: float = 0.0) -> RecordRead:
    """Reads a file; the result is empty if it is missing, or older than `since` (Unix time)."""
    data = _contents(file, since)
    return parse_dump(data) if data else RecordRead()


def read_dumps(ranks: Mapping[int, tuple[int, Mapping[str, str]]], since: float) -> dict[int, RecordRead]:
    """Reads the dumps of these ranks that were written after `since` (Unix time)."""
    found: dict[int, RecordRead] = {}
    for rank, (pid, environ) in ranks.items():
        reads = [
            read for file in _files(rank, pid, environ) if (read := read_dump(file, since)) != RecordRead()
        ]
        if reads:
            found[rank] = merged(reads)
    return found


class Question(NamedTuple):
    """Ranks that were asked for their records, with their processes and environments, at a Unix time."""

    asked: Mapping[int, tuple[int, Mapping[str, str]]]
    when: float

    @classmethod
    def ask(cls, ranks: Mapping[int, tuple[int, Mapping[str, str]]]) -> Question:
        """Asks the ranks that have a pipe: those whose training uses `torch.distributed`."""
        when = time.time()
        return cls(
            {rank: at for rank, at in ranks.items() if any([*map(_write_to, _pipes(rank, *at))])}, when
        )

    def answers(self, cancel: threading.Event) -> dict[int, RecordRead]:
        """Returns the records, once all have been read or their time is over."""
        found: dict[int, RecordRead] = {}
        # The clock of a file system may be behind by a tick.
        since = self.when - 1.0
        while True:
            is_last = time.time() > self.when + ANSWER_SECONDS or cancel.is_set()
            waiting = {rank: at for rank, at in self.asked.items() if rank not in found}
            # An answer of NCCL may be torn, so it is read again.
            read = read_dumps(waiting, since)
            found.update({rank: answer for rank, answer in read.items() if answer.record or is_last})
            if is_last or len(found) == len(self.asked):
                return found
            cancel.wait(LOOK_SECONDS)


def merged(reads: list[RecordRead]) -> RecordRead:
    """Returns the groups of all backends of a rank together."""
    records = [read.record for read in reads if read.record is not None]
    refused = next((read.refused for read in reads if read.refused), "")
    if not records:
        return RecordRead(refused=refused)
    groups = tuple(group for record in records for group in record.groups)
    is_cut = any(record.is_cut for record in records)
    awaits_message = any(record.awaits_message for record in records)
    return RecordRead(RankRecord(groups, is_cut, awaits_message), refused)


def _files(rank: int, pid: int, environ: Mapping[str, str]) -> list[str]:
    directory = environ.get(DIRECTORY)
    own = [os.path.join(directory, f"{pid}.json")] if directory else []
    return [*own, *dict.fromkeys(f"{environ[name]}{rank}" for name in PREFIXES if environ.get(name))]


def _pipes(rank: int, pid: int, environ: Mapping[str, str]) -> list[str]:
    directory = environ.get(DIRECTORY)
    own = [os.path.join(directory, f"{pid}.pipe")] if directory else []
    return [*own, *(f"{environ[name]}{rank}.pipe" for name in PIPES if environ.get(name))]


def _write_to(pipe: str) -> bool:
    """Writes to a pipe; returns False if no process waits for it."""
    with suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(descriptor, b"dump\n") > 0
        finally:
            os.close(descriptor)
    return False


def _contents(file: str, since: float) -> bytes:
    """Returns a file that was written after `since`; nothing of one that is missing or too large."""
    with suppress(OSError), open(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_mtime >= since and status.st_size <= MOST_BYTES:
            return opened.read(MOST_BYTES)
    return b""
