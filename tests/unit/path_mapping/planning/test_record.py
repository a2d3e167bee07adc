"""The record beside a target: what it keeps, and that losing it is never an error."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from path_mapping.planning import record as record_module
from path_mapping.planning.plan import RecordEntry
from path_mapping.planning.record import Record, record_path
from tests.functional.node import eventually

YEAR_2262 = (1 << 63) - 1  # nanoseconds: the largest time that SQLite holds


def names(target: Path, way: str = "way") -> list[str]:
    return [entry.name for entry in Record(target, way).entries()]


def entry(name: str, mtime_ns: int = 7) -> RecordEntry:
    return RecordEntry(name, 1, mtime_ns, "etag", "md5")


def test_entries_are_in_the_order_of_names_until_they_are_forgotten(tmp_path: Path) -> None:
    record = Record(tmp_path / "in", "way")
    for name in ("b", "a/x", "a-x", "gone"):
        record.put(entry(name))
    record.put(entry("b", 8))
    record.forget("gone")
    record.close()
    assert list(Record(tmp_path / "in", "way").entries()) == [entry("a-x"), entry("a/x"), entry("b", 8)]
    assert names(tmp_path / "in", "another way") == []
    assert [path.name for path in tmp_path.iterdir()] == [".in.ma_sync"]


def test_a_kill_loses_few_entries(tmp_path: Path) -> None:
    record = Record(tmp_path / "in", "way")
    for number in range(200):
        record.put(entry(f"{number:03}"))
    assert len(names(tmp_path / "in")) == 200, "written before the end"


def test_entries_are_written_in_batches_or_after_a_second(tmp_path: Path) -> None:
    began, record = time.monotonic(), Record(tmp_path / "in", "way")
    record.put(entry("first"))
    at_once = record_path(tmp_path / "in").exists()
    assert not at_once or time.monotonic() - began > 1, "each entry by itself would take too long"

    def written_after_another_put() -> bool:
        record.put(entry("later"))
        return bool(names(tmp_path / "in"))

    eventually(written_after_another_put, "what was put a second ago is written")


def test_a_time_that_sqlite_cannot_hold_is_not_recorded(tmp_path: Path) -> None:
    """A file from the year 2300, as broken clocks make them, must not end the transfer."""
    record = Record(tmp_path / "in", "way")
    for name, mtime_ns in (("a", YEAR_2262), ("b", YEAR_2262 + 1), ("c", -YEAR_2262), ("d", -YEAR_2262 - 2)):
        record.put(entry(name, mtime_ns))
    record.close()
    assert names(tmp_path / "in") == ["a", "c"]


def test_a_thread_may_go_on_with_what_another_began_to_read(tmp_path: Path) -> None:
    record = Record(tmp_path / "in", "way")
    for name in "abc":
        record.put(entry(name))
    record.close()
    reader = record.entries()
    first = threading.Thread(target=lambda: next(reader))
    first.start()
    first.join()
    assert [left.name for left in reader] == ["b", "c"]


def test_a_record_that_is_not_kept_is_neither_read_nor_written(tmp_path: Path) -> None:
    record = Record(tmp_path / "in", "way", kept=False)
    record.put(entry("a"))
    record.close()
    assert list(tmp_path.iterdir()) == []
    kept = Record(tmp_path / "in", "way")
    kept.put(entry("a"))
    kept.close()
    assert list(Record(tmp_path / "in", "way", kept=False).entries()) == []


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(4096)])
def test_a_damaged_record_starts_over(tmp_path: Path, content: bytes) -> None:
    record_path(tmp_path / "in").write_bytes(content)
    record = Record(tmp_path / "in", "way")
    assert list(record.entries()) == []
    record.put(entry("a"))
    record.close()
    assert names(tmp_path / "in") == ["a"]


def test_without_a_directory_nothing_is_recorded_and_nothing_fails(tmp_path: Path) -> None:
    record = Record(tmp_path / "not here" / "in", "way")
    record.put(entry("a"))
    record.forget("a")
    assert list(record.entries()) == []
    (tmp_path / "not here").mkdir()
    record.put(entry("a"))
    record.close()
    assert list((tmp_path / "not here").iterdir()) == [], "one failure is enough for this run"


def test_a_record_that_another_process_keeps_locked_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each batch of a long transfer."""
    monkeypatch.setattr(record_module, "_BUSY_SECONDS", 0.1)
    record = Record(tmp_path / "in", "way")
    record.put(entry("a"))
    record.close()
    other = sqlite3.connect(record_path(tmp_path / "in"), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    record.forget("a")
    other.close()
    record.forget("a")
    assert names(tmp_path / "in") == ["a"]
