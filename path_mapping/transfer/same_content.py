"""Compares a local file with an object exactly, where a listing does not suffice."""

from __future__ import annotations

from path_mapping.errors import StoreError
from path_mapping.localfs.source_file import chunks
from path_mapping.stores.contents import RIGHT, WRONG, match_content
from path_mapping.stores.objects import Copy
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetriedStore


def has_content(to: RetriedStore, copy: Copy) -> bool:
    """Tells whether the object at a copy's key has the content of its file, by checksum, else by its bytes.

    The ETag in a listing does not suffice: that of an encrypted object only looks like an MD5. False also if
    the file or the object cannot be read.
    """
    try:
        return to.retrying(lambda: _has_content(to.store, copy))
    except (StoreError, OSError):
        return False


def _has_content(store: Store, copy: Copy) -> bool:
    state = store.find(copy.bucket, copy.key)
    if state is None or state.size != copy.size:
        return False
    match = match_content(state.sums, lambda: chunks(copy.local))
    if match.verdict in (RIGHT, WRONG):
        return match.verdict == RIGHT
    return _same_bytes(store, copy)


def _same_bytes(store: Store, copy: Copy) -> bool:
    """Compares file and object, up to the first difference."""
    with copy.local.open("rb") as file:
        for piece in store.read(copy.bucket, copy.key):
            if file.read(len(piece)) != piece:
                return False
        return not file.read(1)
