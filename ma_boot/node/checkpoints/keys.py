"""The keys of attempts, sets and their files below the URL of an output; when a set counts. Pure.

Numbers in keys are inverted, so that the first page of a listing has the newest. No key is ever written by
two nodes, or by two attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ma_boot.node.checkpoints.layout import EPOCH, HIGHEST
from ma_boot.wording import list_first
from path_mapping.mapping.routes import ObsUrl

OWN = ".ma_boot"  # the directory of ours below an output's URL, and in its local directory
_LAST_ATTEMPT = 999_999
_LAST_STEP = HIGHEST - 1
_ATTEMPT = re.compile(r"attempt-(\d{6})-([0-9a-f]{4,16})")
_ALIVE = re.compile(rf"alive-{_ATTEMPT.pattern}\.json")
_FILE = re.compile(rf"{_ATTEMPT.pattern}/.*", re.DOTALL)
_OF_ATTEMPT = re.compile(r"(\d{6})-([0-9a-f]{4,16})/([^/]+)")
_OF_NODE = re.compile(r"(?:\.take-\d+/)?node-(\d+)/(.+)", re.DOTALL)
_TAKE = re.compile(r"(?:\.take-\d+/)?(.+)", re.DOTALL)
_OF_SET = re.compile(
    r"(\d{6})-([0-9a-f]{4,16})/(\d{18})-(\d{3})-(said|seen)/part-(\d{5,6})-of-(\d{5,6})(-empty)?\.json"
)
_LAST_VERSION = 999


class Attempt(NamedTuple):
    """One run of the whole job: its number, from 1 on; two of one number have different random tags."""

    number: int
    tag: str

    def __str__(self) -> str:
        return f"attempt-{self.number:06}-{self.tag}"

    @classmethod
    def parse(cls, text: str) -> Attempt:
        """The attempt of this name; raises `ValueError`."""
        match = _ATTEMPT.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}, expected a name such as attempt-000001-3f9c")
        return cls(int(match[1]), match[2])

    @property
    def inverted(self) -> str:
        """The name in keys whose order is to be the newest first."""
        return f"{_LAST_ATTEMPT - self.number:06}-{self.tag}"


class SetName(NamedTuple):
    """A set, the files of all savers that make one checkpoint: its attempt, step and version.

    `by_word`: the training has said that it is complete; else its files have shown it. All parts of a set are
    of one version, and of one kind.
    """

    attempt: Attempt
    step: int
    version: int = 1
    by_word: bool = False

    def __str__(self) -> str:
        version = f", version {self.version}" if self.version > 1 else ""
        return f"step {step_text(self.step)} of {self.attempt}{version}"

    @property
    def order(self) -> tuple[int, int, int, bool]:
        """Ascending with time, within a line of attempts."""
        return self.attempt.number, self.step, self.version, self.by_word


def step_text(number: int) -> str:
    """The number of a step for people: `120`, or `3_120` for step 120 of epoch 3."""
    return f"{number // EPOCH}_{number % EPOCH}" if number >= EPOCH else str(number)


@dataclass(frozen=True)
class PartKey:
    """What the key of a manifest tells: it is the part of this `index` of so many savers (`of`)."""

    name: SetName
    index: int
    of: int
    empty: bool = False


class KnownSet(NamedTuple):
    """A set as a listing shows it: the keys of its manifests."""

    name: SetName
    parts: tuple[PartKey, ...]

    @property
    def of(self) -> int:
        """The number of its savers; 0 if its parts do not agree."""
        counts = {part.of for part in self.parts}
        return counts.pop() if len(counts) == 1 else 0

    @property
    def missing(self) -> tuple[int, ...]:
        """The indices of the parts that are not there."""
        return tuple(sorted(set(range(self.of)) - {part.index for part in self.parts}))

    @property
    def counts(self) -> bool:
        """Whether the part of every saver is there, and one has files: the one rule of all readers."""
        return self.of > 0 and not self.missing and not all(part.empty for part in self.parts)

    def why_not(self) -> str:
        """Why it does not count; empty if it does."""
        if self.counts:
            return ""
        if not self.of:
            return f"its parts are of jobs of {nodes_named(sorted({part.of for part in self.parts}))} savers"
        return f"no part of saver {nodes_named(self.missing)}" if self.missing else "no part has files"


def nodes_named(nodes: Iterable[int], most: int = 8) -> str:
    """`3`, `1, 2`, `0, 1, ... and 9 more`."""
    return list_first(list(nodes), most)


class Place(NamedTuple):
    """Where an output's sets are: `prefix` is empty or ends with `/`."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, remote: ObsUrl) -> Place:
        """The place of an output with this URL."""
        return cls(remote.bucket, remote.prefix)

    def __str__(self) -> str:
        return f"obs://{self.bucket}/{self.prefix}"

    @property
    def attempts(self) -> str:
        """What all keys of attempts begin with."""
        return f"{self.prefix}{OWN}/attempts/"

    @property
    def sets(self) -> str:
        """What all keys of manifests begin with."""
        return f"{self.prefix}{OWN}/sets/"

    @property
    def removals(self) -> str:
        """What all keys of removals that are not finished begin with."""
        return f"{self.prefix}{OWN}/removals/"

    def of_attempt(self, attempt: Attempt, name: str) -> str:
        """The key of a document of an attempt."""
        return f"{self.attempts}{attempt.inverted}/{name}"

    def sets_of(self, attempt: Attempt) -> str:
        """What the keys of an attempt's manifests begin with."""
        return f"{self.sets}{attempt.inverted}/"

    def part(self, part: PartKey) -> str:
        """The key of a manifest."""
        name, empty = part.name, "-empty" if part.empty else ""
        kind = f"{_LAST_VERSION - name.version:03}-{'said' if name.by_word else 'seen'}"
        step = f"{_LAST_STEP - name.step:018}-{kind}"
        return f"{self.sets_of(name.attempt)}{step}/part-{part.index:05}-of-{part.of:05}{empty}.json"

    def removal(self, name: SetName) -> str:
        """The key of the note that a set is being removed."""
        kind = f"{name.version:03}-{'said' if name.by_word else 'seen'}"
        return f"{self.removals}{name.attempt.inverted}-{name.step:018}-{kind}.json"

    def attempt_of(self, key: str) -> tuple[Attempt, str] | None:
        """The attempt of a document, and the document's name; None for any other key."""
        match = _OF_ATTEMPT.fullmatch(key[len(self.attempts) :])
        return (Attempt(_LAST_ATTEMPT - int(match[1]), match[2]), match[3]) if match else None

    def living(self, name: str) -> Attempt | None:
        """The earlier attempt that has noted by a document of this name that it lives; None for any other."""
        match = _ALIVE.fullmatch(name)
        return Attempt(int(match[1]), match[2]) if match else None

    def attempt_of_file(self, key: str) -> Attempt | None:
        """The attempt that has sent a file; None for any other key."""
        match = _FILE.fullmatch(key[len(self.prefix) :])
        return Attempt(int(match[1]), match[2]) if match else None

    def path_of_file(self, key: str, attempt: Attempt, nodes: int) -> tuple[int, str]:
        """The node that has sent a file of this attempt, and the file's path below the output.

        The reverse of `data_name`; the node is -1 if it has none.
        """
        name = key[len(f"{self.prefix}{attempt}/") :]
        if nodes == 1:
            plain = _TAKE.fullmatch(name)
            return 0, plain[1] if plain else name
        of_node = _OF_NODE.fullmatch(name)
        return (int(of_node[1]), of_node[2]) if of_node else (-1, name)

    def part_of(self, key: str) -> PartKey | None:
        """What the key of a manifest tells; None for any other key."""
        hit = _OF_SET.fullmatch(key[len(self.sets) :])
        if hit is None:
            return None
        attempt = Attempt(_LAST_ATTEMPT - int(hit[1]), hit[2])
        name = SetName(attempt, _LAST_STEP - int(hit[3]), _LAST_VERSION - int(hit[4]), hit[5] == "said")
        return PartKey(name, int(hit[6]), int(hit[7]), hit[8] is not None)

    def known_sets(self, keys: Iterable[str]) -> Iterator[KnownSet]:
        """The sets of which these sorted keys are manifests, the newest first; other keys are left out.

        A set that counts is yielded with the manifest that makes it so: no further key is read before.
        """
        parts: list[PartKey] = []
        yielded = False
        for part in filter(None, map(self.part_of, keys)):
            if parts and parts[0].name != part.name:
                if not yielded:
                    yield KnownSet(parts[0].name, tuple(parts))
                parts, yielded = [], False
            parts.append(part)
            known = KnownSet(part.name, tuple(parts))
            if not yielded and known.counts:
                yielded = True
                yield known
        if parts and not yielded:
            yield KnownSet(parts[0].name, tuple(parts))


def data_name(attempt: Attempt, take: int, node: int, nodes: int, path: str) -> str:
    """The key, below the output's prefix, of a file of a set.

    With several nodes each has a directory of its own: some frameworks use the same names on all of them.
    `take` is how often the node has sent a file of this path, from 1 on: what was published is never written
    over.
    """
    taken = f"{attempt}/.take-{take}" if take > 1 else f"{attempt}"
    return f"{taken}/{path}" if nodes == 1 else f"{taken}/node-{node}/{path}"
