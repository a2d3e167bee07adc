"""Files beside a target: the record of moved files, and the notes of unfinished multipart uploads.

The record is a small SQLite file, which only saves work: if it is missing, damaged or locked, everything is
compared again.

A multipart upload belongs to the process that began it: another process, or another node, may be uploading to
the same key. So only ids that were noted here are ever resumed or aborted, and only when the process that
noted them is gone: then the lock on its file is free. Without the file, an upload is not resumed.

Nothing here raises: best effort.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from path_mapping.localfs.atomic_file import is_locked, stem_of
from path_mapping.planning.plan import RecordEntry

_SUFFIX = ".ma_sync"
# Entries that are written at once, at least every _BATCH_SECONDS: a kill loses no more than one batch.
_BATCH = 200
_BATCH_SECONDS = 1.0
# Nanoseconds, in the year 2262: the largest integer of SQLite.
_LATEST = (1 << 63) - 1
# Seconds; max. wait for another process that writes to the record.
_BUSY_SECONDS = 2.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS entries (
    way TEXT, name TEXT, size INTEGER, mtime_ns INTEGER, mark TEXT, md5 TEXT, PRIMARY KEY (way, name)
) WITHOUT ROWID"""
_COLUMNS = "name, size, mtime_ns, mark, md5"


def record_path(target: Path) -> Path:
    """Returns the path of a target's record: not in it, as training code lists its data directory."""
    return target.parent / f".{stem_of(target.name)}{_SUFFIX}"


def is_record(name: str) -> bool:
    """Tells whether a file has the name of a record or of its SQLite journal, which are never uploaded."""
    return name.startswith(".") and name.endswith((_SUFFIX, f"{_SUFFIX}-journal"))


class Record:
    """The entries of one way, `download obs://...` or `upload obs://...`; a file may hold several ways.

    The file is created by the first write. If it is not `kept`, nothing is read or written. All methods are
    thread-safe.
    """

    def __init__(self, target: Path, way: str, kept: bool = True) -> None:
        self._path = record_path(target)
        self._way = way
        self._lock = threading.Lock()
        self._pending: list[RecordEntry] = []
        self._written = time.monotonic()
        self._usable = kept

    def entries(self) -> Iterator[RecordEntry]:
        """Yields all entries that are on the disk, in the order of their names."""
        if not self._usable or not os.path.isfile(self._path):
            return
        query = f"SELECT {_COLUMNS} FROM entries WHERE way = ? ORDER BY name"
        with suppress(sqlite3.Error):
            database = self._connect()
            try:
                yield from map(RecordEntry._make, database.execute(query, (self._way,)))
            finally:
                database.close()

    def put(self, entry: RecordEntry) -> None:
        """Adds or replaces an entry; it is written with the next batch, at the latest by `close`."""
        with self._lock:
            self._pending.append(entry)
            if len(self._pending) >= _BATCH or time.monotonic() - self._written > _BATCH_SECONDS:
                self._flush()

    def forget(self, name: str) -> None:
        """Removes an entry."""
        with self._lock:
            self._flush()
            self._run("DELETE FROM entries WHERE way = ? AND name = ?", [(self._way, name)])

    def close(self) -> None:
        """Writes what is pending."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        rows = [(self._way, *entry) for entry in self._pending if abs(entry.mtime_ns) <= _LATEST]
        self._pending, self._written = [], time.monotonic()
        self._run("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _run(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if not rows or not self._usable:
            return
        try:
            self._write(statement, rows)
        except (sqlite3.OperationalError, OSError):  # locked, disk full, or no permission
            self._usable = False
        except sqlite3.DatabaseError:  # damaged: start over
            with suppress(OSError, sqlite3.Error):
                os.unlink(self._path)
                self._write(statement, rows)

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Writes by a connection of its own, so that no lock is held between batches."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
        database = self._connect()
        try:
            # Faster; a crash of the machine may damage the record, which costs work, but no data.
            database.execute("PRAGMA synchronous = OFF")
            with database:
                database.execute(_SCHEMA)
                database.executemany(statement, rows)
        finally:
            database.close()

    def _connect(self) -> sqlite3.Connection:
        # Writable even to read: a kill may have left a journal, which SQLite applies first.
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        return sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True, check_same_thread=False)


# It ends like a record, so these files are never uploaded.
_OF_UPLOADS = ".uploads.ma_sync"


class BegunUpload(NamedTuple):
    """A multipart upload that was neither completed nor aborted."""

    bucket: str
    key: str
    upload: str


class NotedUploads(NamedTuple):
    """The ids that are noted for a route: `left` by dead processes, and `used` by processes that live."""

    left: tuple[BegunUpload, ...]
    used: frozenset[str]


def noted_uploads(target: Path, way: str) -> NotedUploads:
    """Returns the notes of a route. Takes the arguments of `BegunUploads`, but takes over nothing."""
    left: list[BegunUpload] = []
    used: set[str] = set()
    for path in _files(target.parent, _prefix(target, way)):
        with suppress(OSError):
            unfinished = _unfinished(path.read_bytes())
            if is_locked(os.fspath(path)):
                used.update(upload.upload for upload in unfinished)
            else:
                left.extend(unfinished)
    return NotedUploads(tuple(left), frozenset(used))


class BegunUploads:
    """The unfinished uploads of one route: its own, and those of dead processes, which it takes over."""

    def __init__(self, target: Path, way: str) -> None:
        """`target` is the route's local path, `way` as in its record."""
        self._directory = target.parent
        self._prefix = _prefix(target, way)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._path = Path()
        self._open: dict[str, BegunUpload] = {}
        self._left: dict[str, BegunUpload] = {}
        self._take_over()

    def left(self) -> list[BegunUpload]:
        """The uploads of earlier runs that were not taken."""
        return list(self._left.values())

    def take(self, bucket: str, key: str) -> tuple[str, ...]:
        """Takes the ids of this object's uploads that earlier runs left, the oldest first; each only once."""
        ids = [begun.upload for begun in self._left.values() if (begun.bucket, begun.key) == (bucket, key)]
        for upload in ids:
            del self._left[upload]
        return tuple(ids)

    def begun(self, bucket: str, key: str, upload: str) -> None:
        """Notes an upload; the note is in the file before the first part is sent."""
        if upload not in self._open:
            self._open[upload] = BegunUpload(bucket, key, upload)
            self._note({"begun": upload, "bucket": bucket, "key": key})

    def ended(self, upload: str) -> None:
        """Notes that an upload was completed or aborted."""
        self._left.pop(upload, None)
        if self._open.pop(upload, None) is not None:
            self._note({"ended": upload})

    def close(self) -> None:
        """Releases the file; what is unfinished stays in it for the next run."""
        if self._file is not None:
            if not self._open:
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._file)
            self._file = None

    def _take_over(self) -> None:
        """Copies the notes of dead processes to the own file, then removes their files."""
        for path in _files(self._directory, self._prefix):
            with suppress(OSError):
                self._take_from(path)

    def _take_from(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(file).st_nlink:  # another process has taken it over
                return
            for upload in _unfinished(path.read_bytes()):
                self._left[upload.upload] = upload
                self.begun(*upload)
            if self._file is not None or not self._left:
                path.unlink()
        finally:
            os.close(file)

    def _note(self, entry: dict[str, str]) -> None:
        """Adds a line, after a newline: a kill may have torn the last line."""
        with self._lock, suppress(OSError):
            if self._file is None:
                self._create()
            if self._file is not None:
                os.write(self._file, f"\n{json.dumps(entry)}\n".encode("ascii"))

    def _create(self) -> None:
        """Creates the file, and locks it before it gets the name by which other processes find it."""
        name = f"{self._prefix}{os.urandom(6).hex()}"
        new, self._path = (
            self._directory / f"{name}.new.ma_sync",
            self._directory / f"{name}{_OF_UPLOADS}",
        )
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            # A file system without locks raises: then uploads have no owner and are not noted.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(new, self._path)
        except OSError:
            os.close(file)
            new.unlink()
            raise
        self._file = file


def _prefix(target: Path, way: str) -> str:
    named = hashlib.sha256(way.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f".{stem_of(target.name)}.{named}."


def _files(directory: Path, prefix: str) -> list[Path]:
    """Returns the files of all processes, in the order of their names."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    return [directory / name for name in names if name.startswith(prefix) and name.endswith(_OF_UPLOADS)]


def _unfinished(content: bytes) -> list[BegunUpload]:
    """Returns the uploads in a file that were begun and not ended, in this order; torn lines are ignored."""
    uploads: dict[str, BegunUpload] = {}
    for line in content.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            if "ended" in entry:
                uploads.pop(entry["ended"], None)
            else:
                uploads[entry["begun"]] = BegunUpload(entry["bucket"], entry["key"], entry["begun"])
    return list(uploads.values())
