"""Whether a file and an object are the same: by size, by mark and record, by content where that decides.

Pure; the MD5 of a local file is a function that is called at most once.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional

from path_mapping.stores import StoredObject


class LocalEntry(NamedTuple):
    """What is at a local path: `kind` is file, directory, link or special; `mtime_ns` in nanoseconds.

    `problem` says why it cannot be uploaded.
    """

    kind: str
    size: int
    mtime_ns: int
    problem: str = ""


class RecordEntry(NamedTuple):
    """What a record says of a file: as it was here, and the mark that its object had then.

    `mark` is empty for a file that was sent and whose object has not been seen since; `md5` is that of the
    content, where it was computed.
    """

    name: str
    size: int
    mtime_ns: int
    mark: str
    md5: str = ""


class Comparison(NamedTuple):
    """`action` is copy, skip or refuse; `md5` that of the local file, where it was computed.

    `learned`: the two are the same, and the record does not say so yet.
    """

    action: str
    reason: str
    md5: str = ""
    learned: bool = False


def mark_of(found: StoredObject) -> str:
    """What changes when the object's content does: its ETag, whatever it is made of."""
    return found.etag.strip('"')


def compare_download(
    found: StoredObject,
    local: Optional[LocalEntry],
    entry: Optional[RecordEntry],
    checksum: bool,
    md5: Callable[[], str],
) -> Comparison:
    """Whether an object is to be fetched over what is here."""
    if local is None:
        return Comparison("copy", "not here")
    if local.kind == "directory":
        return Comparison("refuse", "a directory is in the place of this file")
    if local.kind != "file":
        return Comparison("copy", "no file is in its place")
    if local.size != found.size:
        return Comparison("copy", "another size")
    return _judged(found, local, entry, checksum, md5, sent=False)


def compare_upload(
    local: LocalEntry,
    found: Optional[StoredObject],
    looked: bool,
    entry: Optional[RecordEntry],
    checksum: bool,
    md5: Callable[[], str],
) -> Comparison:
    """Whether a file is to be sent; `looked` is False when nobody listed the target."""
    if not looked:
        known = entry is not None and _as_recorded(local, entry)
        return Comparison("skip", "sent already") if known else Comparison("copy", "not sent yet")
    if found is None:
        return Comparison("copy", "not in OBS")
    if local.size != found.size:
        return Comparison("copy", "another size")
    return _judged(found, local, entry, checksum, md5, sent=True)


def _judged(
    found: StoredObject,
    local: LocalEntry,
    entry: Optional[RecordEntry],
    checksum: bool,
    md5: Callable[[], str],
    sent: bool,
) -> Comparison:
    """For two of the same size: by the record, else by content where the object's is known."""
    mark = mark_of(found)
    same_mark = entry is not None and entry.mark == mark != ""
    trusted = same_mark or (sent and entry is not None and entry.mark == "")
    if entry is not None and trusted and _as_recorded(local, entry) and not checksum:
        return Comparison("skip", "unchanged", entry.md5, learned=not same_mark)
    expected = (entry.md5 if entry is not None and same_mark else "") or found.md5
    if expected:
        actual = md5()
        if actual == expected:
            return Comparison("skip", "the same content", actual, learned=True)
        return Comparison("copy", "other content", actual)
    if entry is None or checksum:
        return Comparison("copy", "its content is not known")
    return Comparison("copy", "changed here" if trusted else "changed in OBS")


def _as_recorded(local: LocalEntry, entry: RecordEntry) -> bool:
    return (local.size, local.mtime_ns) == (entry.size, entry.mtime_ns)
