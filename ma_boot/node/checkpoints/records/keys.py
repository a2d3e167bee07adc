"""Keys of attempts, checkpoints and their files below the URL of an output; the rule of completeness. Pure.

Listings of OBS are ascending, and a page has 1,000 keys. Readers want the newest checkpoint, so numbers in
keys
are inverted: the highest possible number minus the number. Step 400 in epoch 3 of attempt 2, version 1:

    what      number                               highest               in the key
    attempt   2                                    999999                999997
    step      3 * 10**9 + 400 = 3000000400         999999999999999999    999999996999999599
    version   1                                    999                   998

    .ma_boot/manifests/999997-9c41/999999996999999599-998-inferred/part-00000-of-00002.json

Attempt 3 has 999996 and is listed before attempt 2, and step 401 has ...598 and is listed before step 400. So
the first page of a listing has the newest checkpoint, however many there are.

No key is ever written by two nodes, or by two attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ma_boot.node.checkpoints.layouts.layout import EPOCH, HIGHEST
from ma_boot.wording import list_first
from path_mapping.mapping.routes import ObsUrl

# ma_boot's own directory, below an output's URL and in its local directory.
OWN = ".ma_boot"

# Highest numbers: keys have the difference to the number, with as many digits.
_LAST_ATTEMPT = 999_999
_LAST_STEP = HIGHEST - 1
_LAST_VERSION = 999

_ATTEMPT = re.compile(r"attempt-(\d{6})-([0-9a-f]{4,16})")
_ALIVE = re.compile(rf"alive-{_ATTEMPT.pattern}\.json")
_FILE = re.compile(rf"{_ATTEMPT.pattern}/.*", re.DOTALL)
_OF_ATTEMPT = re.compile(r"(\d{6})-([0-9a-f]{4,16})/([^/]+)")
_OF_NODE = re.compile(r"(?:\.copy-\d+/)?node-(\d+)/(.+)", re.DOTALL)
_COPY = re.compile(r"(?:\.copy-\d+/)?(.+)", re.DOTALL)
_OF_SET = re.compile(
    r"(\d{6})-([0-9a-f]{4,16})/(\d{18})-(\d{3})-(explicit|inferred)/part-(\d{5,6})-of-(\d{5,6})(-empty)?\.json"
)


class Attempt(NamedTuple):
    """One run of the job on all nodes: a number from 1 on, and a random tag.

    Two jobs that start at the same time may choose the same number, but not the same tag.
    """

    number: int
    tag: str

    def __str__(self) -> str:
        return f"attempt-{self.number:06}-{self.tag}"

    @classmethod
    def parse(cls, text: str) -> Attempt:
        """Returns the attempt of this name; raises `ValueError`."""
        match = _ATTEMPT.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}, expected a name such as attempt-000001-3f9c")
        return cls(int(match[1]), match[2])

    @property
    def inverted(self) -> str:
        """Name in keys that are listed newest first."""
        return f"{_LAST_ATTEMPT - self.number:06}-{self.tag}"


class CheckpointName(NamedTuple):
    """Identity of a checkpoint: its attempt, step and version.

    `is_explicit`: the training has called `checkpoint(step)`; otherwise completeness is inferred from the
    files. All parts of a checkpoint have the same version and kind.
    """

    attempt: Attempt
    step: int
    version: int = 1
    is_explicit: bool = False

    def __str__(self) -> str:
        version = f", version {self.version}" if self.version > 1 else ""
        return f"step {step_text(self.step)} of {self.attempt}{version}"

    @property
    def order(self) -> tuple[int, int, int, bool]:
        """Sort key: ascending with time."""
        return self.attempt.number, self.step, self.version, self.is_explicit


def step_text(number: int) -> str:
    """Formats the number of a step: `120`, or `3_120` for step 120 of epoch 3."""
    return f"{number // EPOCH}_{number % EPOCH}" if number >= EPOCH else str(number)


@dataclass(frozen=True)
class PartKey:
    """Contents of a manifest's key: the part of saver `index`, counted from 0, of `of` savers."""

    name: CheckpointName
    index: int
    of: int
    empty: bool = False


class ListedCheckpoint(NamedTuple):
    """A checkpoint as a listing shows it: the keys of its manifests."""

    name: CheckpointName
    parts: tuple[PartKey, ...]

    @property
    def of(self) -> int:
        """Number of savers; 0 if the parts have different numbers."""
        counts = {part.of for part in self.parts}
        return counts.pop() if len(counts) == 1 else 0

    @property
    def missing(self) -> tuple[int, ...]:
        """Indices of the savers whose part is missing."""
        return tuple(sorted(set(range(self.of)) - {part.index for part in self.parts}))

    @property
    def is_complete(self) -> bool:
        """Returns whether every saver has published its part, and one has files. All readers use this."""
        return self.of > 0 and not self.missing and not all(part.empty for part in self.parts)

    def why_incomplete(self) -> str:
        """Returns the reason that the checkpoint is incomplete; empty if it is complete."""
        if self.is_complete:
            return ""
        if not self.of:
            return f"its parts are of jobs of {nodes_named(sorted({part.of for part in self.parts}))} savers"
        return f"no part of saver {nodes_named(self.missing)}" if self.missing else "no part has files"


def nodes_named(nodes: Iterable[int], most: int = 8) -> str:
    """Formats node numbers: `3`, `1, 2`, `0, 1, ... and 9 more`."""
    return list_first(list(nodes), most)


class Place(NamedTuple):
    """Location of an output's checkpoints in OBS: `prefix` is empty or ends with `/`."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, remote: ObsUrl) -> Place:
        """Returns the place of an output with this URL."""
        return cls(remote.bucket, remote.prefix)

    def __str__(self) -> str:
        return f"obs://{self.bucket}/{self.prefix}"

    @property
    def attempts(self) -> str:
        """Prefix of the keys of all attempts."""
        return f"{self.prefix}{OWN}/attempts/"

    @property
    def manifests(self) -> str:
        """Prefix of the keys of all manifests."""
        return f"{self.prefix}{OWN}/manifests/"

    @property
    def removals(self) -> str:
        """Prefix of the notes on removals in progress."""
        return f"{self.prefix}{OWN}/removals/"

    @property
    def ledger(self) -> str:
        """Prefix of the keys of the ledger of all jobs."""
        return f"{self.prefix}{OWN}/ledger/"

    def of_attempt(self, attempt: Attempt, name: str) -> str:
        """Returns the key of a document of an attempt."""
        return f"{self.attempts}{attempt.inverted}/{name}"

    def manifests_of(self, attempt: Attempt) -> str:
        """Returns the prefix of the keys of an attempt's manifests."""
        return f"{self.manifests}{attempt.inverted}/"

    def part(self, part: PartKey) -> str:
        """Returns the key of a manifest."""
        name, empty = part.name, "-empty" if part.empty else ""
        kind = f"{_LAST_VERSION - name.version:03}-{'explicit' if name.is_explicit else 'inferred'}"
        step = f"{_LAST_STEP - name.step:018}-{kind}"
        return f"{self.manifests_of(name.attempt)}{step}/part-{part.index:05}-of-{part.of:05}{empty}.json"

    def removal(self, name: CheckpointName) -> str:
        """Returns the key of the note that a checkpoint is being removed."""
        kind = f"{name.version:03}-{'explicit' if name.is_explicit else 'inferred'}"
        return f"{self.removals}{name.attempt.inverted}-{name.step:018}-{kind}.json"

    def attempt_of(self, key: str) -> tuple[Attempt, str] | None:
        """Returns the attempt and the name of the document with this key; None for any other key."""
        match = _OF_ATTEMPT.fullmatch(key[len(self.attempts) :])
        return (Attempt(_LAST_ATTEMPT - int(match[1]), match[2]), match[3]) if match else None

    def living(self, name: str) -> Attempt | None:
        """Returns the earlier attempt that reports by a document of this name that it still runs."""
        match = _ALIVE.fullmatch(name)
        return Attempt(int(match[1]), match[2]) if match else None

    def attempt_of_file(self, key: str) -> Attempt | None:
        """Returns the attempt that has uploaded the file with this key; None for any other key."""
        match = _FILE.fullmatch(key[len(self.prefix) :])
        return Attempt(int(match[1]), match[2]) if match else None

    def path_of_file(self, key: str, attempt: Attempt, nodes: int) -> tuple[int, str]:
        """Returns the node that has uploaded a file of this attempt, and the file's path below the output.

        The reverse of `data_name`; the node is -1 if the key names none.
        """
        name = key[len(f"{self.prefix}{attempt}/") :]
        if nodes == 1:
            plain = _COPY.fullmatch(name)
            return 0, plain[1] if plain else name
        of_node = _OF_NODE.fullmatch(name)
        return (int(of_node[1]), of_node[2]) if of_node else (-1, name)

    def part_of(self, key: str) -> PartKey | None:
        """Parses the key of a manifest; returns None for any other key."""
        hit = _OF_SET.fullmatch(key[len(self.manifests) :])
        if hit is None:
            return None
        attempt = Attempt(_LAST_ATTEMPT - int(hit[1]), hit[2])
        name = CheckpointName(
            attempt, _LAST_STEP - int(hit[3]), _LAST_VERSION - int(hit[4]), hit[5] == "explicit"
        )
        return PartKey(name, int(hit[6]), int(hit[7]), hit[8] is not None)

    def list_checkpoints(self, keys: Iterable[str]) -> Iterator[ListedCheckpoint]:
        """Groups sorted keys of manifests into checkpoints, the newest first; other keys are skipped.

        A complete checkpoint is yielded at the manifest that completes it: the listing is read no further.
        """
        parts: list[PartKey] = []
        yielded = False
        for part in filter(None, map(self.part_of, keys)):
            if parts and parts[0].name != part.name:
                if not yielded:
                    yield ListedCheckpoint(parts[0].name, tuple(parts))
                parts, yielded = [], False
            parts.append(part)
            known = ListedCheckpoint(part.name, tuple(parts))
            if not yielded and known.is_complete:
                yielded = True
                yield known
        if parts and not yielded:
            yield ListedCheckpoint(parts[0].name, tuple(parts))


def data_name(attempt: Attempt, copy: int, node: int, nodes: int, path: str) -> str:
    """Returns the key, below the output's prefix, of a file of a checkpoint.

    With several nodes each has its own directory: some frameworks use the same names on all of them.
    `copy` counts the files of this path that the node has uploaded, from 1 on: published files are never
    overwritten.
    """
    directory = f"{attempt}/.copy-{copy}" if copy > 1 else f"{attempt}"
    return f"{directory}/{path}" if nodes == 1 else f"{directory}/node-{node}/{path}"
