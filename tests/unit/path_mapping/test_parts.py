"""Ranges, parts, pools and checksums: pure rules, for any size."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import List, Tuple

import pytest
from hypothesis import given, strategies as st

from path_mapping.localfs.atomic_file import FileMark, PartJournal, put_mark, read_mark
from path_mapping.localfs.source_file import by_crcmod, by_liblzma, crc64, crc64_of_parts
from path_mapping.stores.responses import seconds_to_wait
from path_mapping.transfer.parts import (
    BATCH,
    MIB,
    MOST_IN_FLIGHT,
    MOST_THREADS,
    PoolSize,
    batch_limit,
    identity,
    part_size,
    parts_that_count,
    pool_size,
    spans,
)


@given(st.integers(0, 1 << 50), st.integers(MIB, 1 << 30))
def test_parts_cover_the_file_exactly_and_are_never_too_many(size: int, least: int) -> None:
    part = part_size(size, least)
    assert part >= least
    count = -(-size // part)
    assert count <= 10_000
    if count < 5_000:
        cut = spans(size, part)
        assert len(cut) == count
        assert sum(span.length for span in cut) == size
        assert [span.offset for span in cut] == [index * part for index in range(count)]
        assert all(0 < span.length <= part for span in cut)


@given(st.integers(0, 10**7), st.integers(0, 1 << 50), st.integers(1, 256), st.floats(0, 10, allow_nan=False))
def test_a_pool_stays_small(files: int, size: int, cores: int, round_trip: float) -> None:
    pool = pool_size(files, size, cores, round_trip)
    assert 0 <= pool.processes <= min(8, cores)
    assert 1 <= pool.threads * max(1, pool.processes) <= MOST_THREADS
    pool = pool_size(files, size, cores, round_trip, ahead=True)
    requests = pool.threads * max(1, pool.processes) * (1 + pool.ahead)
    assert requests <= (MOST_IN_FLIGHT if pool.ahead else MOST_THREADS)


def test_few_files_need_no_process_and_long_round_trips_more_threads() -> None:
    assert pool_size(3, 1000, 8, 0.0) == PoolSize(0, 1)
    assert pool_size(10_000, 160 * MIB, 2, 0.0005) == PoolSize(2, 4)
    assert pool_size(10_000, 160 * MIB, 2, 0.02) == PoolSize(2, 40)
    assert pool_size(10_000, 160 * MIB, 64, 0.0005) == PoolSize(8, 4)
    assert pool_size(10_000, 160 * MIB, 64, 0.01) == PoolSize(8, 12)
    assert pool_size(10_000, 160 * MIB, 1, 0.0).processes == 0
    assert pool_size(132, 2048 * MIB, 2, 0.0) == PoolSize(0, 8)


def test_small_objects_are_asked_for_ahead_by_few_threads() -> None:
    assert pool_size(10_000, 160 * MIB, 2, 0.02, ahead=True) == PoolSize(2, 4, 19)
    assert pool_size(10_000, 160 * MIB, 1, 0.02, ahead=True) == PoolSize(0, 4, 19)
    assert pool_size(10_000, 160 * MIB, 64, 0.02, ahead=True) == PoolSize(8, 4, 5)
    assert pool_size(10_000, 160 * MIB, 2, 0.0003, ahead=True) == PoolSize(2, 4, 7)
    assert pool_size(10_000, 160 * MIB, 2, 5.0, ahead=True) == PoolSize(2, 4, 23)
    large = pool_size(10_000, 10_000 * MIB, 2, 0.02)
    assert pool_size(10_000, 10_000 * MIB, 2, 0.02, ahead=True) == large == PoolSize(2, 40)
    assert pool_size(300, 1000, 2, 0.02, ahead=True).ahead == 0
    assert pool_size(1_500, 24 * MIB, 2, 5.0, ahead=True) == PoolSize(2, 4, 10)  # 16 files for a connection


@given(st.integers(0, 10**7), st.integers(1, 200), st.integers(1, 24))
def test_batches_get_smaller_towards_the_end(left: int, room: int, together: int) -> None:
    limit = batch_limit(left, room, together)
    assert min(together, max(1, left)) <= limit <= BATCH
    assert limit <= max(1, left)
    assert limit <= max(together, left / (2 * room))


def test_only_parts_of_the_planned_size_count() -> None:
    found = ((1, 5, "a"), (2, 4, "b"), (9, 5, "c"))
    assert parts_that_count(found, spans(12, 5)) == ["a", "", ""]


@given(st.text(), st.text())
def test_each_version_of_an_object_has_its_own_name(one: str, other: str) -> None:
    assert (identity("bucket", one, 5) == identity("bucket", other, 5)) == (one == other)


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_crcs_of_parts_combine_to_the_crc_of_the_whole(parts: List[bytes]) -> None:
    whole = crc64(b"".join(parts))
    assert crc64_of_parts([crc64(part) for part in parts], list(map(len, parts))) == whole
    running = 0
    for part in parts:
        running = crc64(bytearray(part), running)
    assert running == whole


@given(st.binary(max_size=2000), st.integers(0, (1 << 64) - 1))
def test_liblzma_and_crcmod_agree(data: bytes, before: int) -> None:
    native = by_liblzma()
    assert native is not None
    assert native(data, before) == by_crcmod()(data, before) == native(memoryview(bytearray(data)), before)
    assert crc64(b"123456789") == 0x995DC9BBDF1939FA  # the check value of CRC-64/XZ


@given(st.binary(max_size=200))
def test_a_journal_with_any_content_can_be_read(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "journal").write_bytes(content)
        folder = os.open(directory, os.O_RDONLY)
        journal = PartJournal("journal", folder)
        before = journal.known()
        journal.note(7, 123)
        assert journal.known() == {**before, 7: 123}
        journal.forget()
        assert journal.known() == {}
        journal.close()
        os.close(folder)


def test_a_mark_identifies_the_object_that_a_file_is_a_copy_of(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    with path.open("rb") as file:
        put_mark(file.fileno(), 5, '"etag with space"')
    assert read_mark(path) == FileMark(5, "etag with space", path.stat().st_mtime_ns)
    assert read_mark(tmp_path / "nothing") is None


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("", None), ("soon", None), ("99999", 60.0)])
def test_retry_after(header: str, seconds: object) -> None:
    found: Tuple[object, ...] = (seconds_to_wait(header),)
    assert found == (seconds,)
