"""Nodes of a job that talk over a real channel, each at an address of its own in 127.0.0.0/8."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Dict, Iterator, List

from ma_boot.modelarts import free_port
from ma_boot.observe.channel import Address, NodeChannel
from ma_boot.observe.channel.protocol import HELLO, NONCE, PROOF, Handshake, hello
from ma_boot.processes import SignalInbox

TOKEN = "9f1c0a2e55d04c7fa3c1"


def addresses(nodes: int) -> Dict[int, Address]:
    """A free port at the address of each node."""
    port = free_port()
    return {node: Address(f"127.77.{node // 250}.{node % 250 + 1}", port) for node in range(nodes)}


@contextmanager
def talking(nodes: int, at: Dict[int, Address], **tokens: str) -> Iterator[List[NodeChannel]]:
    """The channels of these nodes; `tokens` are those of nodes with another one, as `node1="..."`."""
    with ExitStack() as stack:
        inbox = stack.enter_context(SignalInbox())
        channels = []
        for node in range(nodes):
            token = tokens.get(f"node{node}", TOKEN)
            channel = NodeChannel(token, "job", node, len(at), at[node], inbox)
            stack.callback(channel.close)
            channel.meet(at)
            channels.append(channel)
        yield channels


def heard(channel: NodeChannel, found: List[Any]) -> List[Any]:
    """What the channel has heard so far, gathered in `found`."""
    found += channel.heard()
    return found


class Stranger:
    """Somebody who speaks to a node as it likes."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=5)

    def begin(self, client: int, server: int, nonce: bytes = b"n" * NONCE) -> Handshake:
        """Sends a hello as this client, and reads the answer."""
        self.socket.sendall(hello(client, nonce))
        return Handshake(client, server, nonce, self.read(NONCE))

    def read(self, size: int) -> bytes:
        """So many bytes, or what comes before the end."""
        found = b""
        with suppress(ConnectionResetError):
            while len(found) < size and (piece := self.socket.recv(size - len(found))):
                found += piece
        return found


__all__ = ["HELLO", "PROOF", "TOKEN", "Stranger", "addresses", "heard", "talking"]
