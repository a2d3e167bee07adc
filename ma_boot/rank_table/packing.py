"""Tables that Volcano's plugin configmap1980 has packed (`--rank-table-compress`): gzip in base64."""

from __future__ import annotations

import base64
import gzip
import zlib

PREFIX = b"H4sI"  # of gzip's first bytes (1f 8b 08) in base64
LARGEST = 256 * 1024 * 1024  # bytes of an unpacked table: a hundred times that of 100,000 cards


def is_packed(content: bytes) -> bool:
    """Whether the file is packed; its name does not tell, it ends in `.json` like that of any other table."""
    return content.lstrip()[: len(PREFIX)] == PREFIX


def packed(text: bytes) -> bytes:
    """The text as the plugin packs it."""
    return base64.b64encode(gzip.compress(text, mtime=0))


def unpacked(content: bytes) -> bytes:
    """The JSON of a packed table; raises `ValueError` if it is incomplete or larger than `LARGEST`."""
    data = base64.b64decode(b"".join(content.split()), validate=True)
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # of gzip
    try:
        text = reader.decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail:
        raise ValueError(f"more than {LARGEST} bytes when unpacked")
    if not reader.eof:
        raise ValueError("the end is missing")
    return text
