"""The keys of attempts, sets and their files below the URL of an output. Pure.

Numbers in keys are inverted, so that the first page of a listing has the newest. No key is ever written by
two nodes, or by two attempts.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from path_mapping.layouts import EPOCH, HIGHEST
from path_mapping.mapping import ObsUrl

OWN = ".ma_boot"  # the directory of ours below an output's URL, and in its local directory
_LAST_ATTEMPT = 999_999
_LAST_STEP = HIGHEST - 1
_ATTEMPT = re.compile(r"attempt-(\d{6})-([0-9a-f]{4,16})")
_OF_ATTEMPT = re.compile(r"(\d{6})-([0-9a-f]{4,16})/([^/]+)")
_IDLE = re.compile(r"(\d{6})-([0-9a-f]{4,16})/-idle-(\d{5,})-of-(\d{5,})\.json")
_OF_NODE = re.compile(r"node-(\d+)/(.+)", re.DOTALL)
_OF_SET = re.compile(r"(\d{6})-([0-9a-f]{4,16})/(\d{18})/part-(\d{5,})-of-(\d{5,})\.json")


class Attempt(NamedTuple):
    """One run of the whole job: its number, from 1 on; two of one number have different random tags."""

    number: int
    tag: str

    def __str__(self) -> str:
        return f"attempt-{self.number:06}-{self.tag}"

    @classmethod
    def parse(cls, text: str) -> Attempt:
        """The attempt of this name; raises `ValueError`."""
        found = _ATTEMPT.fullmatch(text)
        if found is None:
            raise ValueError(f"found {text!r}, expected a name such as attempt-000001-3f9c")
        return cls(int(found[1]), found[2])

    @property
    def inverted(self) -> str:
        """The name in keys whose order is to be the newest first."""
        return f"{_LAST_ATTEMPT - self.number:06}-{self.tag}"


class SetName(NamedTuple):
    """A set, the files of all nodes that make one checkpoint: its attempt, and the number of its step."""

    attempt: Attempt
    step: int

    def __str__(self) -> str:
        return f"step {step_text(self.step)} of {self.attempt}"


def step_text(number: int) -> str:
    """The number of a step for people: `120`, or `3_120` for step 120 of epoch 3."""
    return f"{number // EPOCH}_{number % EPOCH}" if number >= EPOCH else str(number)


class KnownSet(NamedTuple):
    """A set as a listing shows it: `parts` are the node and the number of nodes of each manifest.

    `idle` are those of nodes that save nothing in the whole attempt.
    """

    name: SetName
    parts: Tuple[Tuple[int, int], ...]
    idle: Tuple[Tuple[int, int], ...] = ()

    @property
    def nodes(self) -> int:
        """The number of nodes of which each has its part here, or none to give; 0 if a part is missing."""
        for nodes in {nodes for _, nodes in self.parts}:
            if {node for node, of in (*self.parts, *self.idle) if of == nodes} == set(range(nodes)):
                return nodes
        return 0

    @property
    def with_parts(self) -> Tuple[int, ...]:
        """The nodes that have a part."""
        return tuple(sorted({node for node, _ in self.parts}))

    def why_not_whole(self) -> str:
        """Which parts are missing, in words; empty if none is."""
        if self.nodes:
            return ""
        counts = sorted({nodes for _, nodes in self.parts})
        if len(counts) != 1:
            return f"its parts are of jobs of {' and '.join(map(str, counts))} nodes"
        there = {node for node, _ in (*self.parts, *self.idle)}
        return f"no part of {nodes_named(sorted(set(range(counts[0])) - there))}"


def nodes_named(nodes: Iterable[int], most: int = 8) -> str:
    """`node 3`, `nodes 1, 2`, `nodes 0, 1, ... and 9 more`."""
    found = list(nodes)
    if len(found) == 1:
        return f"node {found[0]}"
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"nodes {', '.join(map(str, found[:most]))}{more}"


class Place(NamedTuple):
    """Where an output's sets are: `prefix` is empty or ends with `/`."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, remote: ObsUrl) -> Place:
        """The place of an output with this URL."""
        key = remote.key
        return cls(remote.bucket, key if not key or key.endswith("/") else f"{key}/")

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

    def part(self, name: SetName, node: int, nodes: int) -> str:
        """The key of a node's manifest."""
        step = _LAST_STEP - name.step
        return f"{self.sets_of(name.attempt)}{step:018}/part-{node:05}-of-{nodes:05}.json"

    def idle(self, attempt: Attempt, node: int, nodes: int) -> str:
        """The key of the note that a node saves nothing: it comes before those of the attempt's sets."""
        return f"{self.sets_of(attempt)}-idle-{node:05}-of-{nodes:05}.json"

    def removal(self, name: SetName) -> str:
        """The key of the note that a set is being removed."""
        return f"{self.removals}{name.attempt.inverted}-{name.step:018}.json"

    def attempt_of(self, key: str) -> Optional[Tuple[Attempt, str]]:
        """The attempt of a document, and the document's name; None for any other key."""
        found = _OF_ATTEMPT.fullmatch(key[len(self.attempts) :])
        return (Attempt(_LAST_ATTEMPT - int(found[1]), found[2]), found[3]) if found else None

    def living(self, name: str) -> Optional[Attempt]:
        """The earlier attempt that has noted by a document of this name that it lives; None for any other."""
        try:
            return Attempt.parse(name[len("alive-") : -len(".json")]) if name.startswith("alive-") else None
        except ValueError:
            return None

    def attempt_of_file(self, key: str) -> Optional[Attempt]:
        """The attempt that has sent a file; None for any other key."""
        directory, slash, _ = key[len(self.prefix) :].partition("/")
        try:
            return Attempt.parse(directory) if slash else None
        except ValueError:
            return None

    def path_of_file(self, key: str, attempt: Attempt, nodes: int) -> Tuple[int, str]:
        """The node that has sent a file of this attempt, and the file's path below the output.

        The reverse of `data_name`; the node is -1 if it has none.
        """
        name = key[len(f"{self.prefix}{attempt}/") :]
        if nodes == 1:
            return 0, name
        found = _OF_NODE.fullmatch(name)
        return (int(found[1]), found[2]) if found else (-1, name)

    def part_of(self, key: str) -> Optional[Tuple[SetName, int, int]]:
        """The set, the node and the number of nodes of a manifest; None for any other key."""
        found = _OF_SET.fullmatch(key[len(self.sets) :])
        if found is None:
            return None
        attempt = Attempt(_LAST_ATTEMPT - int(found[1]), found[2])
        return SetName(attempt, _LAST_STEP - int(found[3])), int(found[4]), int(found[5])

    def known_sets(self, keys: Iterable[str]) -> Iterator[KnownSet]:
        """The sets of which these sorted keys are manifests, the newest first; other keys are left out.

        A set that is whole is yielded with the manifest that makes it so: no further key is read before.
        """
        name: Optional[SetName] = None
        idle: Dict[Attempt, List[Tuple[int, int]]] = {}
        parts: List[Tuple[int, int]] = []
        done = False
        for key in keys:
            part = self.part_of(key)
            if part is None:
                note = _IDLE.fullmatch(key[len(self.sets) :])
                if note is not None:
                    attempt = Attempt(_LAST_ATTEMPT - int(note[1]), note[2])
                    idle.setdefault(attempt, []).append((int(note[3]), int(note[4])))
                continue
            this = part[0]
            if this != name:
                if name is not None and not done:
                    yield KnownSet(name, tuple(parts), tuple(idle.get(name.attempt, ())))
                name, parts, done = this, [], False
            parts.append(part[1:])
            whole = KnownSet(this, tuple(parts), tuple(idle.get(this.attempt, ())))
            if not done and whole.nodes:
                done = True
                yield whole
        if name is not None and not done:
            yield KnownSet(name, tuple(parts), tuple(idle.get(name.attempt, ())))


def data_name(attempt: Attempt, node: int, nodes: int, path: str) -> str:
    """The key, below the output's prefix, of a file of a set.

    With several nodes each has a directory of its own: some frameworks use the same names on all of them.
    """
    return f"{attempt}/{path}" if nodes == 1 else f"{attempt}/node-{node}/{path}"
