"""The words that a node and node 0 exchange, as bytes. Pure.

    node                                              node 0
                                           <-         16 random bytes
    MAGIC, its number, 16 random bytes, proof   ->
                                           <-         proof
    then, from either side, messages: length, message, proof; each is answered by an empty one

A proof is an HMAC-SHA256 with the job's key, made from the token and the job's name, over the random bytes of
both sides, the side, the number of the message on its way, and the message: none is valid a second time. Who
has not proved anything gets random bytes only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

MAGIC = b"maboot2\n"
NONCE = 16
PROOF = 32
MOST_BYTES = 1 << 20  # of a message: the stacks of a node's ranks have some 100 KB
MOST_VALUES = 50_000  # in a message: each costs more memory than its bytes
LONGEST_NUMBER = 40  # characters: Python takes seconds for a million digits
KINDS = frozenset(
    (
        *("here", "failed", "cause", "hanging", "stacks", "verdict"),
        *("ended", "left", "stopped", "go", "over", "save", "uploads"),
    )
)
SHORTEST_TOKEN = 16  # a shorter one can be found by trying, by who has seen one exchange
HELLO = struct.Struct(f"!{len(MAGIC)}sI{NONCE}s")
LENGTH = struct.Struct("!I")


class Address(NamedTuple):
    """Where node 0 listens."""

    host: str
    port: int


class Session(NamedTuple):
    """One connection: the job's key, the number of the node that has called, and the random bytes of both."""

    key: bytes
    node: int
    of_server: bytes
    of_client: bytes

    def proof(self, side: str, number: int, content: bytes = b"") -> bytes:
        """The proof that `side` (`client` or `server`) has sent this as its message `number`, 0 for hello."""
        head = f"{side} {number} {self.node} ".encode() + self.of_server + self.of_client
        return hmac.new(self.key, head + content, hashlib.sha256).digest()

    def is_proved(self, proof: bytes, side: str, number: int, content: bytes = b"") -> bool:
        """Whether these bytes are that proof."""
        return hmac.compare_digest(proof, self.proof(side, number, content))


def key_of(token: str, job: str) -> bytes:
    """The key of a job: a token that is used for two of them lets neither speak in the other."""
    name = f"ma_boot channel\0{job}".encode("utf-8", "surrogateescape")
    return hmac.new(token.encode("utf-8", "surrogateescape"), name, hashlib.sha256).digest()


def hello(session: Session) -> bytes:
    """What the node begins with, once it has node 0's random bytes."""
    return HELLO.pack(MAGIC, session.node, session.of_client) + session.proof("client", 0)


def read_hello(data: bytes, key: bytes, of_server: bytes) -> Session | None:
    """The session that a node begins; None for anything else than a proved hello."""
    magic, node, nonce = HELLO.unpack(data[: HELLO.size])
    session = Session(key, node, of_server, nonce)
    return session if magic == MAGIC and session.is_proved(data[HELLO.size :], "client", 0) else None


def encoded(body: Mapping[str, Any]) -> str:
    """The body of a message, for `packed`: written once for all nodes."""
    return json.dumps(body, ensure_ascii=True)


def packed(kind: str, late: float, body: str) -> bytes:
    """A message; `late` are the seconds since what it tells, so that no two clocks are compared."""
    return f'{{"kind": "{kind}", "late": {late:.3f}, "body": {body}}}'.encode("ascii")


def unpacked(data: bytes) -> tuple[str, float, Mapping[str, Any]] | None:
    """The kind, the delay and the body of a message; None for bytes that are not one, or cost too much."""
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        return None
    try:
        message = json.loads(data, parse_int=_whole, parse_float=_number, parse_constant=_number)
        kind, late, body = message["kind"], float(message["late"]), message["body"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    right = isinstance(kind, str) and kind in KINDS and isinstance(body, dict) and 0 <= late < 1e9
    return (kind, late, body) if right else None


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError
    return int(text)


def _number(text: str) -> float:
    """A finite number: JSON has no other one."""
    if len(text) > LONGEST_NUMBER or text.endswith(("Infinity", "NaN")):
        raise ValueError
    return float(text)
