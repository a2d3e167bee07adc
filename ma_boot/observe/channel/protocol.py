"""The words that two nodes exchange, as bytes: one message for each connection. Pure.

    client                                               server
    MAGIC, its number, 16 random bytes           ->
                                                 <-      16 random bytes
    proof that it has the key of its number      ->
                                                 <-      proof that it has the key of its own number
    length, message, proof of the message        ->
                                                 <-      proof that it has taken the message

A proof is an HMAC-SHA256 over the random bytes of both sides, so none is valid a second time. Who has not
proved anything gets random bytes only. The keys are made from the token, the job's name and a node's number.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from typing import Any, Mapping, NamedTuple, Optional, Tuple

MAGIC = b"maboot1\n"
NONCE = 16
PROOF = 32
MOST_BYTES = 1 << 20  # of a message: the stacks of a node's ranks have some 100 KB
MOST_NODES = 1 << 16
SHORTEST_TOKEN = 16  # a shorter one can be found by trying, by who has seen one exchange
HELLO = struct.Struct(f"!{len(MAGIC)}sI{NONCE}s")
LENGTH = struct.Struct("!I")


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int


class Handshake(NamedTuple):
    """One connection: who speaks to whom, and the random bytes of both."""

    client: int
    server: int
    of_client: bytes
    of_server: bytes

    def proof(self, key: bytes, step: str, content: bytes = b"") -> bytes:
        """The proof that the owner of the key has made this step of this very exchange."""
        head = f"{step} {self.client} {self.server} ".encode() + self.of_client + self.of_server
        return hmac.new(key, head + content, hashlib.sha256).digest()

    def is_proved(self, found: bytes, key: bytes, step: str, content: bytes = b"") -> bool:
        """Whether these bytes are that proof."""
        return hmac.compare_digest(found, self.proof(key, step, content))


def key_of(token: str, job: str, node: int) -> bytes:
    """The key of a node: who has only this one cannot speak as another node."""
    name = f"ma_boot channel\0{job}\0{node}".encode("utf-8", "surrogateescape")
    return hmac.new(token.encode("utf-8", "surrogateescape"), name, hashlib.sha256).digest()


def hello(client: int, nonce: bytes) -> bytes:
    """What the client begins with."""
    return HELLO.pack(MAGIC, client, nonce)


def read_hello(data: bytes) -> Optional[Tuple[int, bytes]]:
    """The client's number and random bytes; None for anything else than a hello."""
    magic, client, nonce = HELLO.unpack(data)
    return (client, nonce) if magic == MAGIC else None


def packed(kind: str, late: float, body: Mapping[str, Any]) -> bytes:
    """A message; `late` are the seconds since what it tells, so that no two clocks are compared."""
    text = json.dumps({"kind": kind, "late": round(late, 3), "body": body}, ensure_ascii=True)
    return text.encode("ascii")


def unpacked(data: bytes) -> Optional[Tuple[str, float, Mapping[str, Any]]]:
    """The kind, the delay and the body of a message; None if it is none."""
    try:
        message = json.loads(data)
        kind, late, body = message["kind"], float(message["late"]), message["body"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    right = isinstance(kind, str) and isinstance(body, dict) and 0 <= late < 1e9
    return (kind[:32], late, body) if right else None
