"""Ledger of a job: an entry for each start and attempt, as values, and as the documents in OBS. Pure.

The documents outlive the containers of the job, and other programs may write to their place. So every reader
is bounded, and returns None for whatever is no entry.

    .ma_boot/ledger/JOB/999997-9c41e0d2/00001-failed.json        attempt 1 of start 2 of a job

The number of the start is inverted, as in the keys of checkpoints: a listing has the newest start first.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from ma_boot.redact import masked
from path_mapping.errors import printable

# Entries of a job that are kept, and the bytes of each: all of them together have at most 256 KiB.
MOST_ENTRIES = 200
MOST_BYTES = (256 << 10) // MOST_ENTRIES
BEGUN, FAILED, SUCCEEDED, STOPPED, REFUSED = "begun", "failed", "succeeded", "stopped", "refused"
# Characters of texts; those of the words are further cut if the document is too long.
LONGEST_WORDS = 300
LONGEST_TEXT = 120
_LAST_START = 999_999
_MOST_ATTEMPTS = 99_999
# Larger numbers are no count, no code and no time.
_MOST = 10**15
_KEY = re.compile(
    rf"(\d{{6}})-([0-9a-f]{{8}})/(\d{{5}})-({BEGUN}|{FAILED}|{SUCCEEDED}|{STOPPED}|{REFUSED})\.json"
)


class EntryKey(NamedTuple):
    """Identity of an entry: the start, the process of node 0, the attempt (0 for none), and the outcome.

    `start` counts the starts of the job from 1 on; `boot` is a random text, as two processes of node 0 may
    have the same number.
    """

    start: int
    boot: str
    attempt: int
    outcome: str

    def __str__(self) -> str:
        """The key below the job's part of the ledger."""
        return f"{_LAST_START - self.start:06}-{self.boot}/{self.attempt:05}-{self.outcome}.json"

    @classmethod
    def parse(cls, text: str) -> EntryKey | None:
        """Returns the identity in a key; None for any other key."""
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        return cls(_LAST_START - int(match[1]), match[2], int(match[3]), match[4])


class RunDigest(NamedTuple):
    """Digests of what a start runs; an empty one is unknown."""

    code: str = ""
    command: str = ""
    mapping: str = ""
    image: str = ""
    environment: str = ""

    @property
    def is_known(self) -> bool:
        """True if all of them are known."""
        return all(self)


class LedgerEntry(NamedTuple):
    """A start (`attempt` 0) or an attempt of a job.

    `at` is the time of the entry in seconds since 1970. `step` is the last step that was printed, `whole` the
    newest complete checkpoint. `node`, `rank`, `code`, `words` and `place` are those of the root cause,
    `kind` is the kind of failure, `rule` that of the verdict on a restart in place. `server` is the one whose
    hardware has failed. `paid` and `useful` are node seconds: useful is the time until the newest complete
    checkpoint, or until the end of a success. Of the rest, `start` is before the ranks, without the `inputs`,
    and `lost` are the steps after the checkpoint.
    """

    key: EntryKey
    job: str
    at: float
    nodes: int
    digest: RunDigest = RunDigest()
    step: int | None = None
    whole: str = ""
    node: int | None = None
    rank: int | None = None
    code: int | None = None
    words: str = ""
    place: str = ""
    kind: str = ""
    rule: str = ""
    server: str = ""
    paid: float = 0.0
    useful: float = 0.0
    start: float = 0.0
    inputs: float = 0.0
    lost: float = 0.0


class JobLedger(NamedTuple):
    """The entries of a job in the order of time."""

    entries: tuple[LedgerEntry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[LedgerEntry | None]) -> JobLedger:
        """Returns the ledger of these entries, in any order."""
        known = [entry for entry in entries if entry is not None]
        return cls(tuple(sorted(known, key=lambda entry: (*entry.key[:3], entry.at, entry.key.outcome))))

    @property
    def last_start(self) -> int:
        """Number of the newest start; 0 for none."""
        return max((entry.key.start for entry in self.entries), default=0)

    @property
    def starts(self) -> list[tuple[LedgerEntry, ...]]:
        """The entries of each start, the oldest first; each process of node 0 is one."""
        return [tuple(entries) for _, entries in groupby(self.entries, key=lambda entry: entry.key[:2])]

    def ends(self) -> list[LedgerEntry]:
        """Returns the last entry of each start, the newest first, without those that the ledger has ended."""
        last = (entries[-1] for entries in reversed(self.starts))
        return [entry for entry in last if entry.key.outcome != REFUSED]


def job_directory(job: str) -> str:
    """Returns the name of a job's part of the ledger: names of jobs may have any characters."""
    return hashlib.sha256(job.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def entry_document(entry: LedgerEntry) -> dict[str, Any]:
    """Returns an entry as a JSON value without secrets, of at most `MOST_BYTES` bytes."""
    values = {name: value for name, value in entry._asdict().items() if name != "key"}
    values["digest"] = entry.digest._asdict()
    for name, longest in (("job", LONGEST_TEXT), ("words", LONGEST_WORDS), ("place", LONGEST_TEXT),
                          ("whole", LONGEST_TEXT), ("server", LONGEST_TEXT)):  # fmt: skip
        values[name] = _clean(str(values[name]), longest)
    document: dict[str, Any] = masked(values)
    for name in ("words", "place", "job"):
        while document[name] and len(json.dumps(document)) > MOST_BYTES:
            document[name] = document[name][: len(document[name]) // 2]
    return document


def read_entry(key: EntryKey, document: object) -> LedgerEntry | None:
    """Returns the entry of a document that anything may have written; None if it is none."""
    if not isinstance(document, Mapping):
        return None
    at, nodes = _number(document, "at"), _whole(document, "nodes")
    if at is None or nodes is None or not _text(document, "job"):
        return None
    digest = document.get("digest")
    digests = digest if isinstance(digest, Mapping) else {}
    return LedgerEntry(
        key,
        _text(document, "job"),
        at,
        nodes,
        digest=RunDigest(*(_text(digests, name) for name in RunDigest._fields)),
        step=_whole(document, "step"),
        whole=_text(document, "whole"),
        node=_whole(document, "node"),
        rank=_whole(document, "rank"),
        code=_whole(document, "code", most=255),
        words=_text(document, "words", LONGEST_WORDS),
        place=_text(document, "place"),
        kind=_text(document, "kind"),
        rule=_text(document, "rule"),
        server=_text(document, "server"),
        **{name: _number(document, name) or 0.0 for name in ("paid", "useful", "start", "inputs", "lost")},
    )


def entry_fields(entry: LedgerEntry) -> dict[str, Any]:
    """Returns an entry for the events of a node, without secrets and digests."""
    document = entry_document(entry).items()
    known = {name: value for name, value in document if value not in (None, "") and name != "digest"}
    return {"entry": str(entry.key), **known}


def read_fields(fields: object) -> LedgerEntry | None:
    """Returns the entry in an event; None if it is none."""
    if not isinstance(fields, Mapping):
        return None
    key = EntryKey.parse(_text(fields, "entry"))
    return None if key is None else read_entry(key, fields)


def surplus(keys: Iterable[EntryKey]) -> list[EntryKey]:
    """Returns the entries that are too many, with room for those of another start: the oldest ones."""
    newest_first = sorted(keys, reverse=True)
    return newest_first[MOST_ENTRIES - 2 :]


def _clean(text: str, longest: int = LONGEST_TEXT) -> str:
    return printable(text[:longest])[:longest]


def _text(document: Mapping[Any, object], name: str, longest: int = LONGEST_TEXT) -> str:
    value = document.get(name)
    return _clean(value, longest) if isinstance(value, str) else ""


def _whole(document: Mapping[Any, object], name: str, most: int = _MOST) -> int | None:
    value = document.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and isinstance(value, int) and 0 <= value <= most else None


def _number(document: Mapping[Any, object], name: str) -> float | None:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= _MOST else None
