"""Upload states of the nodes with shared outputs: node 0 collects them and reports them to all. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

IDLE, WRITING, FINISHED = "idle", "writing", "finished"


class UploadState(NamedTuple):
    """Report of a node: idle between two uploads, writing, or finished; `number` counts its reports."""

    number: int
    state: str

    def body(self) -> dict[str, Any]:
        """Returns the body of the message to node 0."""
        return {"number": self.number, "state": self.state}


def read_state(body: Mapping[str, Any]) -> UploadState | None:
    """Returns the report in a message; None if it is invalid."""
    number, state = body.get("number"), body.get("state")
    if not isinstance(number, int) or not _is_count(number) or state not in (IDLE, WRITING, FINISHED):
        return None
    return UploadState(number, state)


class UploadsSeen(NamedTuple):
    """Report of node 0: the numbers of the last reports, and the nodes that are writing or unfinished."""

    heard: Mapping[int, int]
    writing: frozenset[int]
    unfinished: frozenset[int]

    def has_heard(self, node: int, number: int) -> bool:
        """Returns whether node 0 had received this report of a node, or a later one."""
        return self.heard.get(node, -1) >= number

    def body(self) -> dict[str, Any]:
        """Returns the body of the message to all nodes."""
        heard = [[node, number] for node, number in sorted(self.heard.items())]
        return {"heard": heard, "writing": sorted(self.writing), "unfinished": sorted(self.unfinished)}


def read_seen(body: Mapping[str, Any], nodes: int) -> UploadsSeen | None:
    """Returns node 0's report in a message; None if it is invalid."""
    heard = _pairs(body.get("heard"), nodes)
    writing, unfinished = _nodes(body.get("writing"), nodes), _nodes(body.get("unfinished"), nodes)
    if heard is None or writing is None or unfinished is None:
        return None
    return UploadsSeen(heard, writing, unfinished)


class UploadStates(NamedTuple):
    """States of the nodes by their last reports."""

    known: Mapping[int, UploadState] = {}

    def with_state(self, node: int, state: UploadState) -> UploadStates:
        """With a report of a node; one older than its last report changes nothing."""
        last = self.known.get(node)
        if last is not None and last.number >= state.number:
            return self
        return UploadStates({**self.known, node: state})

    def seen(self, alive: Collection[int]) -> UploadsSeen:
        """Returns the report about the nodes that are alive."""
        states = {node: self.known.get(node, UploadState(-1, IDLE)).state for node in alive}
        return UploadsSeen(
            {node: state.number for node, state in self.known.items()},
            frozenset(node for node, state in states.items() if state == WRITING),
            frozenset(node for node, state in states.items() if state != FINISHED),
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _nodes(value: object, nodes: int) -> frozenset[int] | None:
    if not isinstance(value, list) or not all(_is_count(node) and node < nodes for node in value):
        return None
    return frozenset(value)


def _pairs(value: object, nodes: int) -> dict[int, int] | None:
    if not isinstance(value, list):
        return None
    pairs: dict[int, int] = {}
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(_is_count, pair)) and pair[0] < nodes):
            return None
        pairs[pair[0]] = pair[1]
    return pairs
