"""Detects truncated files of checkpoints by their format, without the framework. Pure."""

from __future__ import annotations

import io
import json
from struct import error as StructError
from typing import Any, Callable
from zipfile import BadZipFile, ZipFile

# Offset and length -> bytes; fewer only at the end of the file.
Read = Callable[[int, int], bytes]

_ZIP = b"PK"
# Protobuf field 1 with a length: each parameter in MindSpore's .ckpt.
_PARAMETER = b"\x0a"
# Bytes of a safetensors header: the limit of the format's own reader.
_LONGEST_HEADER = 100 << 20
# Bytes: MindSpore's `crc_num` and 10 bytes of the number (mindspore/train/serialization.py).
_CRC_TAIL = 17
# Bytes; a larger JSON file is not read.
_LARGEST_JSON = 256 << 20


def find_damage(path: str, size: int, read: Read) -> str:
    """Returns evidence that the file is truncated; empty if there is none.

    Finds files that were cut or are empty. It reads headers and directories only, so it does not find changed
    bytes: checksums are for that. A file whose format does not fit its suffix only must not be empty.
    """
    suffix = path.rpartition("/")[2].rpartition(".")[2]
    if size == 0:
        return "" if suffix in ("txt", "md", "py", "log", "lock") else "it is empty"
    if suffix == "safetensors":
        return _safetensors(size, read)
    if suffix == "json":
        return _json(size, read)
    if suffix in ("pt", "pth", "bin", "ckpt", "tar", "npz"):
        start = read(0, 4)
        if start.startswith(_ZIP):
            return _zip(size, read)
        if suffix == "ckpt" and start.startswith(_PARAMETER):
            return _protobuf(size, read)
    return ""


def _safetensors(size: int, read: Read) -> str:
    """Checks that the file ends with the last tensor of the header: the format allows nothing behind it."""
    length = int.from_bytes(read(0, 8), "little") if size >= 8 else _LONGEST_HEADER
    if length > min(_LONGEST_HEADER, size - 8):
        return f"it has {size} bytes, fewer than its header says"
    try:
        header = json.loads(read(8, length))
        tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
        end = 8 + length + max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        return f"its header is not JSON of tensors: {error}"
    return "" if size == end else f"it has {size} bytes, its header says {end}"


def _json(size: int, read: Read) -> str:
    if size > _LARGEST_JSON:
        return ""
    try:
        json.loads(read(0, size))
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return ""


def _zip(size: int, read: Read) -> str:
    """Checks the directory at the end, which `torch.save` writes last, and the places of its records."""
    try:
        with ZipFile(io.BufferedReader(_Reader(size, read))) as archive:
            outside = [
                entry.filename
                for entry in archive.infolist()
                if entry.header_offset + entry.compress_size > size
            ]
    except (BadZipFile, NotImplementedError, OSError, ValueError, EOFError, StructError) as error:
        return f"it is not a complete zip archive, as torch.save writes it: {error}"
    return f"its zip directory names a record that is not in it: {outside[0]}" if outside else ""


def _protobuf(size: int, read: Read) -> str:
    """Checks MindSpore's .ckpt: a message of field 1 for each parameter, up to the end or to the CRC."""
    at = 0
    while at < size:
        start = read(at, 11)
        if size - at == _CRC_TAIL and start.startswith(b"crc_num"):
            return ""
        length, digits = _varint(start[1:])
        if not start.startswith(_PARAMETER) or not digits:
            return f"byte {at} is not the beginning of a parameter, as in MindSpore's .ckpt"
        at += 1 + digits + length
    return "" if at == size else f"it has {size} bytes, its last parameter ends at {at}"


def _varint(text: bytes) -> tuple[int, int]:
    """Decodes a protobuf number; returns it and its length in bytes, 0 if it is not a number."""
    number = 0
    for index, byte in enumerate(text):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, index + 1
    return 0, 0


class _Reader(io.RawIOBase):
    """File object for `zipfile` on top of a `Read`."""

    def __init__(self, size: int, read: Read) -> None:
        self._size, self._read, self._at = size, read, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"an offset of {start + offset}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        content = self._read(self._at, min(len(buffer), max(0, self._size - self._at)))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
