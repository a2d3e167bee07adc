"""Protocol between a node and node 0, as bytes; pure functions.

    node                                              node 0
                                           <-         16 random bytes
    MAGIC, its number, 16 random bytes, proof   ->
                                           <-         proof
    then, from either side, messages: length, message, proof; each is answered by an empty one

A proof is an HMAC-SHA256 with the job's key, made from the token and the job's name, over the random bytes of
both sides, the side, the number of the message from that side, and the message, so no proof is valid twice. A
client that has not proved its key receives random bytes only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from ma_boot.node.observe.peers import ENDED, HANGING, LOOKING, REPORT, STACKS, STEPS

MAGIC = b"maboot2\n"
NONCE = 16
PROOF = 32
# Bytes of a message; the stacks of a node's ranks have some 100 KB.
MOST_BYTES = 1 << 20
# Values in a message: as Python objects they take far more memory than their bytes.
MOST_VALUES = 50_000
# Characters of a number: Python needs seconds to convert a million digits.
LONGEST_NUMBER = 40
KINDS = frozenset(
    (
        *(HANGING, STACKS, ENDED, REPORT, LOOKING, STEPS, "here", "failed", "cause"),
        *("left", "stopped", "go", "over", "save", "uploads", "ranks", "ready"),
    )
)
# Characters; an eavesdropper of one exchange can find a shorter token by brute force.
SHORTEST_TOKEN = 16
HELLO = struct.Struct(f"!{len(MAGIC)}sI{NONCE}s")
LENGTH = struct.Struct("!I")


class Address(NamedTuple):
    """Host and port at which node 0 listens."""

    host: str
    port: int


class Session(NamedTuple):
    """Keys of one connection: the job's key, the connecting node's number, and the random bytes of both."""

    key: bytes
    node: int
    of_server: bytes
    of_client: bytes

    def proof(self, side: str, number: int, content: bytes = b"") -> bytes:
        """Returns the proof of `side` (`client` or `server`) for its message `number`, 0 for the greeting."""
        head = f"{side} {number} {self.node} ".encode() + self.of_server + self.of_client
        return hmac.new(self.key, head + content, hashlib.sha256).digest()

    def is_proved(self, proof: bytes, side: str, number: int, content: bytes = b"") -> bool:
        """Returns True if the bytes are that proof; takes the same time for any wrong one."""
        return hmac.compare_digest(proof, self.proof(side, number, content))


def key_of(token: str, job: str) -> bytes:
    """Derives the key of a job; jobs with the same token have different keys."""
    name = f"ma_boot channel\0{job}".encode("utf-8", "surrogateescape")
    return hmac.new(token.encode("utf-8", "surrogateescape"), name, hashlib.sha256).digest()


def hello(session: Session) -> bytes:
    """Returns the node's greeting, its answer to node 0's random bytes."""
    return HELLO.pack(MAGIC, session.node, session.of_client) + session.proof("client", 0)


def read_hello(data: bytes, key: bytes, of_server: bytes) -> Session | None:
    """Returns the session that a greeting begins; None if it is no greeting or its proof is wrong."""
    magic, node, nonce = HELLO.unpack(data[: HELLO.size])
    session = Session(key, node, of_server, nonce)
    return session if magic == MAGIC and session.is_proved(data[HELLO.size :], "client", 0) else None


def encoded(body: Mapping[str, Any]) -> str:
    """Encodes the body of a message for `packed`, once for all peers."""
    return json.dumps(body, ensure_ascii=True)


def packed(kind: str, late: float, body: str) -> bytes:
    """Encodes a message; `late` is the age of its event in seconds, as clocks of nodes differ."""
    return f'{{"kind": "{kind}", "late": {late:.3f}, "body": {body}}}'.encode("ascii")


def unpacked(data: bytes) -> tuple[str, float, Mapping[str, Any]] | None:
    """Decodes a message into kind, age in seconds and body; None if it is invalid or too expensive."""
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
    """Converts a finite number; JSON has no others, but Python's parser accepts them."""
    if len(text) > LONGEST_NUMBER or text.endswith(("Infinity", "NaN")):
        raise ValueError
    return float(text)
