"""Checksums of content that is read piece by piece, compared with those that OBS states."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Callable, NamedTuple

from path_mapping.errors import Corrupted
from path_mapping.localfs.source_file import crc64, md5_of, new_md5
from path_mapping.stores.http_connection import Piece
from path_mapping.stores.objects import Checksums, md5_of_etag

RIGHT, WRONG, UNSURE, UNKNOWN = "right", "wrong", "unsure", "unknown"


class ContentMatch(NamedTuple):
    """Result of comparing content with the checksum of its object.

    `verdict` is RIGHT, WRONG, UNKNOWN if the object has no checksum that can be compared, or UNSURE: none of
    the usual part sizes gives the ETag of this multipart object, so the content is wrong, or the part size is
    unusual. `crc` is the content's CRC-64 if it is UNSURE, `why` the difference.
    """

    verdict: str
    crc: int = 0
    why: str = ""


# One object for all: a batch of outcomes pickles it once.
_SAME = ContentMatch(RIGHT)


class ContentSum:
    """Checksum of content that is added piece by piece, of the kind that `like` has."""

    def __init__(self, like: Checksums) -> None:
        self.kind = like.kind
        self.size = 0
        self.crc = 0
        self._digest = new_md5() if self.kind == "MD5" else None
        self._digests = {size: [new_md5()] for size in like.part_sizes}

    def add(self, piece: Piece) -> None:
        """Adds the next piece of the content."""
        if self.kind in ("CRC-64", "ETag"):
            self.crc = crc64(piece, self.crc)
        elif self._digest is not None:
            self._digest.update(piece)
        for size, digests in self._digests.items():
            view, left = memoryview(piece), size * len(digests) - self.size
            while view:
                if not left:
                    digests.append(new_md5())
                    left = size
                digests[-1].update(view[:left])
                view, left = view[left:], max(0, left - len(view))
        self.size += len(piece)

    def md5(self) -> str:
        """Returns the MD5 in hex, if that is the kind."""
        return self._digest.hexdigest() if self._digest is not None else ""

    def etags(self) -> list[str]:
        """Returns the ETag for each size of parts, as of an object that was uploaded in such parts."""
        return [etag_of_parts([part.hexdigest() for part in parts]) for parts in self._digests.values()]

    def match(self, stated: Checksums) -> ContentMatch:
        """Compares the content with a checksum of the same kind, or with none."""
        if not stated.kind:
            return ContentMatch(UNKNOWN)
        if stated.kind == "ETag":
            if stated.etag in self.etags():
                return _SAME
            why = f"the ETag in OBS is {stated.etag}, no usual part size gives it here"
            return ContentMatch(UNSURE, self.crc, why)
        if stated.kind == "MD5":
            return compare_checksums("MD5", stated.md5, self.md5())
        return compare_checksums("CRC-64", stated.crc64, self.crc)

    def check(self, doing: str, stated: Checksums) -> ContentMatch:
        """See `match`. Raises `Corrupted` if the content is wrong."""
        match = self.match(stated)
        if match.verdict == WRONG:
            raise Corrupted(f"{doing}: {match.why}")
        return match


def compare_checksums(kind: str, stored: object, local: object) -> ContentMatch:
    """Compares two checksums of the same kind: RIGHT or WRONG."""
    if stored == local:
        return _SAME
    return ContentMatch(WRONG, why=f"the {kind} in OBS is {stored}, here it is {local}")


def sum_content(like: Checksums, pieces: Iterable[Piece]) -> ContentSum:
    """Returns the checksum of all pieces."""
    content = ContentSum(like)
    for piece in pieces:
        content.add(piece)
    return content


def match_content(stated: Checksums, pieces: Callable[[], Iterable[Piece]]) -> ContentMatch:
    """Compares content that can be read again with a checksum, or with none.

    For an ETag of parts, the likely sizes are tried one after another: each takes an MD5 of all content.
    """
    if not stated.kind:
        return ContentMatch(UNKNOWN)
    for likely in [stated._replace(part_sizes=(size,)) for size in stated.part_sizes] or [stated]:
        match = sum_content(likely, pieces()).match(likely)
        if match.verdict != UNSURE:
            break
    return match


def base64_of_md5(md5: str) -> str:
    """Converts an MD5 in hex to the value of Content-MD5."""
    return base64.b64encode(bytes.fromhex(md5)).decode("ascii")


def etag_of_parts(etags: Iterable[str]) -> str:
    """Returns the ETag of a multipart object: the MD5 of the MD5s of its parts, and their number."""
    parts = [md5_of_etag(etag) for etag in etags]
    whole = b"".join(bytes.fromhex(part) for part in parts if part is not None)
    return f"{md5_of([whole])}-{len(parts)}"
