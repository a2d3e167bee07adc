"""Nodes of a job that talk over a real channel: node 0 at an address of its own, the others call it."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress

from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.channel.protocol import HELLO, NONCE, PROOF, Address, Session, hello, key_of
from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.signals import SignalInbox

TOKEN = "9f1c0a2e55d04c7fa3c1"
JOB = "job"


def address() -> Address:
    """A free port at an address that is no other test's."""
    return Address("127.77.0.1", free_port())


class TalkingJob(ExitStack):
    """A job whose node 0 listens `at` an address; its channels, and strangers, are closed at the end."""

    def __init__(self, inbox: SignalInbox) -> None:
        super().__init__()
        self.at = address()
        self._inbox = inbox

    def node(self, node: int, nodes: int = 2, own: Address | None = None, token: str = TOKEN) -> NodeChannel:
        """The channel of a node, which does not know yet where node 0 is."""
        channel = NodeChannel(token, JOB, node, nodes, own or self.at, self._inbox)
        self.callback(channel.close)
        return channel

    def start(self, nodes: int = 2, started: int = 0, **tokens: str) -> list[NodeChannel]:
        """The channels of so many nodes, of which so many have `started` (all for 0).

        `tokens` are those of nodes with another one, as `node1="..."`.
        """
        numbers = range(started or nodes)
        channels = [self.node(node, nodes, token=tokens.get(f"node{node}", TOKEN)) for node in numbers]
        for channel in channels:
            channel.meet(self.at)
        return channels

    def stranger(self) -> Stranger:
        """Somebody who calls node 0."""
        stranger = Stranger(self.at)
        self.callback(stranger.socket.close)
        return stranger


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


__all__ = ["HELLO", "JOB", "NONCE", "PROOF", "TOKEN", "Stranger", "TalkingJob", "address"]
