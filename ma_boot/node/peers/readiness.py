"""Readiness of the nodes to start their ranks: node 0 collects it, and reports the missing nodes. Pure.

node k   ready   it has its inputs, its ranks and its checkpoints
node 0   ready   the nodes that it waits for; without any, all nodes start
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

# Kind of the messages.
KIND = "ready"


class Readiness(NamedTuple):
    """Knowledge of a node about its peers: each method returns the next value.

    `ready` are the peers that are ready. `awaited` are the nodes that node 0 waits for by its last report,
    None before the first one.
    """

    ready: frozenset[int] = frozenset()
    awaited: frozenset[int] | None = None

    def with_message(self, node: int, kind: str, body: Mapping[str, Any]) -> Readiness:
        """After a message of a peer; a process that starts anew is not ready."""
        if kind == "here":
            return self._replace(ready=self.ready - {node}, awaited=None if node == 0 else self.awaited)
        if kind != KIND:
            return self
        if node:
            return self._replace(ready=self.ready | {node})
        awaited = read_awaited(body)
        return self if awaited is None else self._replace(awaited=awaited)


def awaited_body(awaited: Collection[int]) -> Mapping[str, Any]:
    """Returns the body of node 0's message."""
    return {"awaited": sorted(awaited)}


def read_awaited(body: Mapping[str, Any]) -> frozenset[int] | None:
    """Returns the nodes in a message of node 0; None if it is invalid."""
    nodes = body.get("awaited")
    if not isinstance(nodes, list) or not all(type(node) is int and node >= 0 for node in nodes):
        return None
    return frozenset(nodes)
