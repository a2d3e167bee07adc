"""What was moved, recorded beside the target: a small SQLite file that only saves work.

Without it, or with one that is damaged or locked, everything is compared again: no error comes from here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterator, List, Sequence

from path_mapping.planning.compare import RecordEntry

_SUFFIX = ".ma_sync"
_BATCH = 200
_BATCH_SECONDS = 1.0  # so much work a kill can cost, or 200 small files
_WAIT_SECONDS = 2.0  # for another process that writes
_SCHEMA = """CREATE TABLE IF NOT EXISTS entries (
    way TEXT, name TEXT, size INTEGER, mtime_ns INTEGER, mark TEXT, md5 TEXT, PRIMARY KEY (way, name)
) WITHOUT ROWID"""
_COLUMNS = "name, size, mtime_ns, mark, md5"


def record_path(target: Path) -> Path:
    """The file beside the target, not in it: training code lists its data directory."""
    return target.parent / f".{target.name[:200]}{_SUFFIX}"


def is_record(name: str) -> bool:
    """Whether this is the name of a record or of SQLite's journal of it, which are never uploaded."""
    return name.startswith(".") and name.endswith((_SUFFIX, f"{_SUFFIX}-journal"))


class Record:
    """The entries of one way, `download obs://...` or `upload obs://...`; one file holds several ways.

    The file is made when there is something to write. Any thread may use it.
    """

    def __init__(self, path: Path, way: str) -> None:
        self._path = path
        self._way = way
        self._lock = threading.Lock()
        self._pending: List[RecordEntry] = []
        self._written = time.monotonic()
        self._usable = True

    def entries(self) -> Iterator[RecordEntry]:
        """All of them, in the order of their names."""
        if not self._path.is_file():
            return
        query = f"SELECT {_COLUMNS} FROM entries WHERE way = ? ORDER BY name"
        with suppress(sqlite3.Error):
            database = self._connect()
            try:
                yield from map(RecordEntry._make, database.execute(query, (self._way,)))
            finally:
                database.close()

    def put(self, entry: RecordEntry) -> None:
        """Notes one; it is on the disk after some more, or at `close`."""
        with self._lock:
            self._pending.append(entry)
            if len(self._pending) >= _BATCH or time.monotonic() - self._written > _BATCH_SECONDS:
                self._flush()

    def forget(self, names: Sequence[str]) -> None:
        """Takes entries out."""
        with self._lock:
            self._flush()
            self._run("DELETE FROM entries WHERE way = ? AND name = ?", [(self._way, name) for name in names])

    def close(self) -> None:
        """Writes what is left."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        rows = [(self._way, *entry) for entry in self._pending]
        self._pending, self._written = [], time.monotonic()
        self._run("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _run(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if not rows or not self._usable:
            return
        try:
            self._write(statement, rows)
        except sqlite3.OperationalError:  # locked, a full disk, or a directory that is not ours
            self._usable = False
        except sqlite3.DatabaseError:  # damaged: begun anew
            with suppress(OSError, sqlite3.Error):
                os.unlink(self._path)
                self._write(statement, rows)
        except OSError:
            self._usable = False

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """A connection for each batch: no lock is held while nothing is written."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
        database = self._connect()
        try:
            database.execute("PRAGMA synchronous = OFF")  # a damaged record costs work, nothing else
            with database:
                database.execute(_SCHEMA)
                database.executemany(statement, rows)
        finally:
            database.close()

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=rw"  # to read, too: what a kill left is rolled back
        return sqlite3.connect(uri, timeout=_WAIT_SECONDS, uri=True, check_same_thread=False)
