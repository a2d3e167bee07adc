"""Whether a file is copied: its two sides compared by size, then by record, then by content. Pure.

What a local file would be in OBS comes from a function, which is called at most once.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from path_mapping.stores import StoredObject, part_sizes_of

Etags = Callable[[str, Tuple[int, ...]], Sequence[str]]
"""The ETags of a local file's content, by its name, for parts of each of these sizes; for none its MD5."""

COPY, SKIP, REFUSE, MAKE, DELETE = "copy", "skip", "refuse", "make", "delete"


class LocalEntry(NamedTuple):
    """What exists at a local path: `kind` is file, directory, link or special.

    `size` is in bytes, `mtime_ns` in nanoseconds. `problem` says why it cannot be uploaded.
    """

    kind: str
    size: int
    mtime_ns: int
    problem: str = ""

    @property
    def file_size(self) -> Optional[int]:
        """The size of a regular file, None for anything else."""
        return self.size if self.kind == "file" else None


class RecordEntry(NamedTuple):
    """What a record has of a file: its state on the disk and its object's ETag after the last transfer.

    `etag` is without quotes; that of an upload is the one of its response, and empty if it had none. `md5`
    is that of the content, if it was computed.
    """

    name: str
    size: int
    mtime_ns: int
    etag: str
    md5: str = ""

    def matches(self, local: LocalEntry) -> bool:
        """Whether the file is a regular one and has not changed since, as far as size and time show."""
        return (local.kind, local.size, local.mtime_ns) == ("file", self.size, self.mtime_ns)


class Step(NamedTuple):
    """One decision: `action` on the file `name` of a route, and the reason.

    `name` is the path below the route's root; that of a directory ends in `/`. `etag` is the object's and
    `local` what is on the disk, if they exist. `md5` is that of the local content, if it was computed.
    `learned`: both sides are the same, and the record does not have it yet. `said`: a notice names it.
    """

    action: str
    name: str
    size: int
    reason: str
    etag: str = ""
    local: Optional[LocalEntry] = None
    md5: str = ""
    learned: bool = False
    said: bool = False


def unquoted(etag: str) -> str:
    """The ETag as a record has it. It changes with the content, whether or not it is an MD5."""
    return etag.strip('"')


def compare_download(
    name: str,
    found: StoredObject,
    local: Optional[LocalEntry],
    entry: Optional[RecordEntry],
    checksum: bool,
    etags: Etags,
) -> Step:
    """Whether an object is downloaded over what is on the disk."""
    if local is None:
        return Step(COPY, name, found.size, "not here", found.etag)
    step = partial(Step, name=name, size=found.size, etag=found.etag, local=local)
    if local.kind == "directory":
        return step(REFUSE, reason="a directory is in the place of this file")
    if local.kind != "file":
        return step(COPY, reason="no file is in its place")
    if local.size != found.size:
        return step(COPY, reason="another size")
    return _compared(step, found, local, entry, checksum, partial(etags, name))


def compare_upload(
    name: str,
    local: LocalEntry,
    found: Optional[StoredObject],
    listed: bool,
    entry: Optional[RecordEntry],
    checksum: bool,
    etags: Etags,
) -> Step:
    """Whether a file is uploaded. `listed` is False if the target was not: then the record decides."""
    step = partial(Step, name=name, size=local.size, etag=found.etag if found else "", local=local)
    if not listed:
        if entry is not None and entry.matches(local):
            return step(SKIP, reason="sent already")
        return step(COPY, reason="not sent yet")
    if found is None:
        return step(COPY, reason="not in OBS")
    if local.size != found.size:
        return step(COPY, reason="another size")
    return _compared(step, found, local, entry, checksum, partial(etags, name))


def _compared(
    step: Callable[..., Step],
    found: StoredObject,
    local: LocalEntry,
    entry: Optional[RecordEntry],
    checksum: bool,
    etags: Callable[[Tuple[int, ...]], Sequence[str]],
) -> Step:
    """Two sides of the same size: by the record, else by content if the ETag tells it."""
    same_etag = entry is not None and entry.etag == unquoted(found.etag) != ""
    if entry is not None and same_etag and entry.matches(local) and not checksum:
        return step(SKIP, reason="unchanged", md5=entry.md5)
    expected = (entry.md5 if entry is not None and same_etag else "") or found.md5
    if expected:
        (actual,) = etags(())
        if actual == expected:
            return step(SKIP, reason="the same content", md5=actual, learned=True)
        return step(COPY, reason="other content", md5=actual)
    sizes = part_sizes_of(found.etag, found.size)
    if sizes and unquoted(found.etag).lower() in etags(sizes):
        return step(SKIP, reason="the same content", learned=True)
    if entry is None or checksum:
        return step(COPY, reason="its content is not known")
    return step(COPY, reason="changed here" if same_etag else "changed in OBS")
