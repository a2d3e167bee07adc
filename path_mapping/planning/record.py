"""The record of what was moved: a small SQLite file beside the target, which only saves work.

If it is missing, damaged or locked, everything is compared again. Nothing here raises.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterator, List, Sequence

from path_mapping.localfs import stem_of
from path_mapping.planning.compare import RecordEntry

_SUFFIX = ".ma_sync"
_BATCH = 200  # entries: with _BATCH_SECONDS, the most that a kill can lose
_BATCH_SECONDS = 1.0
_LATEST = (1 << 63) - 1  # nanoseconds, in the year 2262: SQLite has no larger integers
_BUSY_SECONDS = 2.0  # the longest wait for another process that writes
_SCHEMA = """CREATE TABLE IF NOT EXISTS entries (
    way TEXT, name TEXT, size INTEGER, mtime_ns INTEGER, mark TEXT, md5 TEXT, PRIMARY KEY (way, name)
) WITHOUT ROWID"""
_COLUMNS = "name, size, mtime_ns, mark, md5"


def record_path(target: Path) -> Path:
    """Beside the target, not in it: training code lists its data directory."""
    return target.parent / f".{stem_of(target.name)}{_SUFFIX}"


def is_record(name: str) -> bool:
    """Whether this is the name of a record or of SQLite's journal of it, which are never uploaded."""
    return name.startswith(".") and name.endswith((_SUFFIX, f"{_SUFFIX}-journal"))


class Record:
    """The entries of one way, `download obs://...` or `upload obs://...`; a file may hold several.

    The file is created by the first write. If it is not `kept`, nothing is read or written. All methods are
    thread-safe.
    """

    def __init__(self, target: Path, way: str, kept: bool = True) -> None:
        self._path = record_path(target)
        self._way = way
        self._lock = threading.Lock()
        self._pending: List[RecordEntry] = []
        self._written = time.monotonic()
        self._usable = kept

    def entries(self) -> Iterator[RecordEntry]:
        """All entries that are on the disk, in the order of their names."""
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
        except sqlite3.OperationalError:  # locked, disk full, or no permission
            self._usable = False
        except sqlite3.DatabaseError:  # damaged: start over
            with suppress(OSError, sqlite3.Error):
                os.unlink(self._path)
                self._write(statement, rows)
        except OSError:
            self._usable = False

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Writes by a connection of its own, so that no lock is held between batches."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
        database = self._connect()
        try:
            database.execute("PRAGMA synchronous = OFF")  # a damaged record costs work, no data
            with database:
                database.execute(_SCHEMA)
                database.executemany(statement, rows)
        finally:
            database.close()

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=rw"  # even to read: a kill may have left a journal
        return sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True, check_same_thread=False)
