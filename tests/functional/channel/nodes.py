"""Nodes of a job that talk over a real channel: node 0 at an address of its own, the others call it."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Iterator, List

from ma_boot.modelarts import free_port
from ma_boot.observe.channel import Address, NodeChannel
from ma_boot.observe.channel.protocol import HELLO, NONCE, PROOF, Session, hello, key_of
from ma_boot.processes import SignalInbox

TOKEN = "9f1c0a2e55d04c7fa3c1"
JOB = "job"


def address() -> Address:
    """A free port at an address that is no other test's."""
    return Address("127.77.0.1", free_port())


@contextmanager
def talking(nodes: int, at: Address, started: int = 0, **tokens: str) -> Iterator[List[NodeChannel]]:
    """The channels of a job of so many nodes, of which so many have `started` (all for 0).

    `tokens` are those of nodes with another one, as `node1="..."`.
    """
    with ExitStack() as stack:
        inbox = stack.enter_context(SignalInbox())
        channels = []
        for node in range(started or nodes):
            channel = NodeChannel(tokens.get(f"node{node}", TOKEN), JOB, node, nodes, at, inbox)
            stack.callback(channel.close)
            channel.meet(at)
            channels.append(channel)
        yield channels


def heard(channel: NodeChannel, messages: List[Any]) -> List[Any]:
    """What the channel has heard so far, gathered in `messages`."""
    messages += channel.heard()
    return messages


class Stranger:
    """Somebody who speaks to node 0 as it likes."""

    def __init__(self, at: Address) -> None:
        self.socket = socket.create_connection(at, timeout=5)

    def begin(self, node: int, token: str = TOKEN, job: str = JOB) -> Session:
        """Greets as this node."""
        session = Session(key_of(token, job), node, self.read(NONCE), os.urandom(NONCE))
        self.socket.sendall(hello(session))
        return session

    def read(self, size: int) -> bytes:
        """So many bytes, or what comes before the end."""
        data = b""
        with suppress(ConnectionResetError):
            while len(data) < size and (piece := self.socket.recv(size - len(data))):
                data += piece
        return data


__all__ = ["HELLO", "NONCE", "PROOF", "TOKEN", "Stranger", "address", "heard", "talking"]
