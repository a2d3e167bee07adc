"""Objects of several ranges, and the requests for them."""

from __future__ import annotations

from hashlib import shake_128
from pathlib import Path

from tests.obs import MemoryObs
from tests.transfers import obs_store, route, send

MIB = 1 << 20

LARGE = shake_128(b"5").digest(33 * MIB + 12_345)  # three ranges: 16 MiB, 16 MiB, and the rest


def put(obs: MemoryObs, key: str, content: bytes, base: Path) -> None:
    """Stores an object in one request."""
    (base / "source").write_bytes(content)
    direct = obs_store(obs.url, multipart_from=1 << 40)
    send(direct, base, route("source", key))


def asked(obs: MemoryObs, method: str, part: str) -> list[str]:
    return [path for how, path in obs.requests if how == method and part in path]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
