"""Nodes of a job with a real channel: node 0 listens at an address of its own, the others connect."""

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
    """Returns a free port at an address that no other test uses."""
    return Address("127.77.0.1", free_port())


class ChannelJob(ExitStack):
    """Job whose node 0 listens `at` an address; closes its channels and raw clients at the end."""

    def __init__(self, inbox: SignalInbox) -> None:
        super().__init__()
        self.at = address()
        self._inbox = inbox

    def node(self, node: int, nodes: int = 2, own: Address | None = None, token: str = TOKEN) -> NodeChannel:
        """Opens the channel of a node that does not know the address of node 0 yet."""
        channel = NodeChannel(token, JOB, node, nodes, own or self.at, self._inbox)
        self.callback(channel.close)
        return channel

    def start(self, nodes: int = 2, started: int = 0, **tokens: str) -> list[NodeChannel]:
        """Opens the channels of a job of `nodes`, for the first `started` ones (0 for all).

        `tokens` are those of nodes with another token, as `node1="..."`.
        """
        numbers = range(started or nodes)
        channels = [self.node(node, nodes, token=tokens.get(f"node{node}", TOKEN)) for node in numbers]
        for channel in channels:
            channel.meet(self.at)
        return channels

    def connect_client(self) -> RawClient:
        """Connects a raw client to node 0."""
        client = RawClient(self.at)
        self.callback(client.socket.close)
        return client


class RawClient:
    """Client with a raw socket to node 0, for valid and invalid bytes."""

    def __init__(self, at: Address) -> None:
        self.socket = socket.create_connection(at, timeout=5)

    def begin(self, node: int, token: str = TOKEN, job: str = JOB) -> Session:
        """Sends the greeting of this node."""
        session = Session(key_of(token, job), node, self.read(NONCE), os.urandom(NONCE))
        self.socket.sendall(hello(session))
        return session

    def read(self, size: int) -> bytes:
        """Reads so many bytes, or fewer if the connection ends."""
        data = b""
        with suppress(ConnectionResetError):
            while len(data) < size and (piece := self.socket.recv(size - len(data))):
                data += piece
        return data


__all__ = ["HELLO", "JOB", "NONCE", "PROOF", "TOKEN", "ChannelJob", "RawClient", "address"]
