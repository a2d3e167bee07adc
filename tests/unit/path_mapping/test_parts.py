"""Ranges, parts, pools and checksums: pure rules, for any size; what a file is compared with, and when it is read again."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from path_mapping.errors import Unreachable
from path_mapping.localfs.atomic_file import PartJournal
from path_mapping.localfs.source_file import Buffer, by_crcmod, by_liblzma, crc64, crc64_of_parts, md5_of
from path_mapping.stores.contents import (
    RIGHT,
    UNKNOWN,
    UNSURE,
    WRONG,
    ContentMatch,
    etag_of_parts,
    match_content,
)
from path_mapping.stores.objects import Checksums, part_sizes_of
from path_mapping.stores.responses import seconds_to_wait
from path_mapping.transfer.download_jobs import is_good
from path_mapping.transfer.parts import (
    MIB,
    MOST_CONNECTIONS,
    PoolSize,
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
    assert 1 <= pool.connections * max(1, pool.processes) <= MOST_CONNECTIONS


def test_few_files_need_no_process_and_long_round_trips_more_connections() -> None:
    assert pool_size(3, 1000, 8, 0.0) == PoolSize(0, 1)
    assert pool_size(10_000, 160 * MIB, 2, 0.0005) == PoolSize(2, 8)
    assert pool_size(10_000, 160 * MIB, 2, 0.02) == PoolSize(2, 80)
    assert pool_size(10_000, 160 * MIB, 64, 0.0005) == PoolSize(8, 8)
    assert pool_size(10_000, 160 * MIB, 64, 0.01) == PoolSize(8, 12)
    assert pool_size(10_000, 160 * MIB, 2, 5.0) == PoolSize(2, 96)
    assert pool_size(1_500, 24 * MIB, 2, 5.0) == PoolSize(2, 46)  # 16 files for a connection
    assert pool_size(10_000, 160 * MIB, 1, 0.0).processes == 0
    assert pool_size(132, 2048 * MIB, 2, 0.0) == PoolSize(2, 4)
    assert pool_size(132, 2048 * MIB, 2, 0.02) == PoolSize(2, 66)


def test_only_parts_of_the_planned_size_count() -> None:
    stored = ((1, 5, "a"), (2, 4, "b"), (9, 5, "c"))
    assert parts_that_count(stored, spans(12, 5)) == ["a", "", ""]


@given(st.text(), st.text())
def test_each_version_of_an_object_has_its_own_name(key: str, other: str) -> None:
    assert (identity("bucket", key, 5) == identity("bucket", other, 5)) == (key == other)


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_crcs_of_parts_combine_to_the_crc_of_the_whole(parts: list[bytes]) -> None:
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


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
@pytest.mark.parametrize("data", [b"", b"123456789"])
def test_crc_of_any_buffer(kind: Callable[[bytes], Buffer], data: bytes) -> None:
    assert crc64(kind(data)) == (0x995DC9BBDF1939FA if data else 0)
    assert crc64(memoryview(b"1_2_3_4_5_6_7_8_9")[::2]) == 0x995DC9BBDF1939FA  # not contiguous


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


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("", None), ("soon", None), ("99999", 60.0)])
def test_retry_after(header: str, seconds: object) -> None:
    assert [seconds_to_wait(header)] == [seconds]


ETAG = "0123456789abcdef" * 2 + "-3"
MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.parametrize(
    ("headers", "stated"),
    [
        ({b"etag": f'"{MD5}"'.encode()}, Checksums(md5=MD5)),
        ({b"etag": f'"{MD5}"'.encode(), b"x-obs-server-side-encryption": b"kms"}, Checksums()),
        ({b"etag": f'"{MD5}"'.encode(), b"x-obs-object-type": b"Appendable"}, Checksums()),
        ({b"etag": f'"{MD5}"'.encode(), b"x-obs-checksum-crc64ecma": b"17"}, Checksums(crc64=17)),
        ({b"x-amz-checksum-crc64ecma": b"x"}, Checksums()),
        ({b"etag": f'"{ETAG}"'.encode()}, Checksums(etag=ETAG, part_sizes=(1,))),
        ({b"etag": ETAG.upper().encode()}, Checksums(etag=ETAG, part_sizes=(1,))),
        ({b"etag": ETAG[:-2].encode()}, Checksums(md5=ETAG[:-2])),
        ({b"etag": b"0123-3"}, Checksums()),
        ({b"etag": f"{ETAG[:-1]}0".encode()}, Checksums()),
        ({b"etag": ETAG.encode(), b"x-obs-server-side-encryption": b"kms"}, Checksums()),
        ({b"etag": ETAG.encode(), b"x-obs-object-type": b"Appendable"}, Checksums()),
        ({}, Checksums()),
    ],
)
def test_checksums_in_the_headers_of_a_response(headers: dict[bytes, bytes], stated: Checksums) -> None:
    assert Checksums.stated(headers, 3) == stated


def likely_part_sizes(size: int, parts: int) -> tuple[int, ...]:
    return part_sizes_of(f"{MD5}-{parts}", size)


@given(size=st.integers(1, 10**11), part=st.sampled_from([5, 8, 9, 15, 16, 64, 100, 512, 5120]))
def test_a_usual_part_size_is_found(size: int, part: int) -> None:
    sizes = likely_part_sizes(size, math.ceil(size / (part * MIB)))
    assert part * MIB in sizes or (size <= part * MIB and sizes == (size,))
    assert {math.ceil(size / likely) for likely in sizes} == {math.ceil(size / (part * MIB))}


@given(size=st.integers(64 * MIB, 10**13))
def test_our_own_part_size_is_found(size: int) -> None:
    part = part_size(size, 16 * MIB)
    assert part in likely_part_sizes(size, math.ceil(size / part))


@pytest.mark.parametrize(("part", "verdict", "readings"), [(5, RIGHT, 1), (6, RIGHT, 2), (7, UNSURE, 3)])
def test_the_likely_part_sizes_are_tried_one_after_another(part: int, verdict: str, readings: int) -> None:
    content, read = bytes(14 * MIB), []
    parts = [md5_of([content[span.offset :][: span.length]]) for span in spans(len(content), part * MIB)]
    stated = Checksums(etag=etag_of_parts(parts), part_sizes=(5 * MIB, 6 * MIB, 6 * MIB + 1))

    def pieces() -> Iterator[bytes]:
        read.append(content)
        yield content

    assert match_content(stated, pieces).verdict == verdict
    assert len(read) == readings


def test_an_empty_object_of_one_part_has_a_part_size() -> None:
    assert likely_part_sizes(0, 1) == (1,)
    assert likely_part_sizes(0, 2) == ()


@pytest.mark.parametrize(
    ("verdict", "seen", "good"),
    [
        (RIGHT, [], True),
        (UNKNOWN, [], True),
        (WRONG, [], False),
        (UNSURE, [], False),
        (UNSURE, [1], False),
        (UNSURE, [7], True),
        (UNSURE, [1, 7], True),
    ],
)
def test_when_a_file_moves_into_its_place(verdict: str, seen: list[int], good: bool) -> None:
    assert is_good(ContentMatch(verdict), 7, seen, "obs://b/k") is good


@pytest.mark.parametrize(("verdict", "seen"), [(WRONG, [7]), (WRONG, [1]), (UNSURE, [1, 2])])
def test_a_file_is_not_read_for_ever(verdict: str, seen: list[int]) -> None:
    with pytest.raises(Unreachable, match="reading obs://b/k: the MD5 differs, after"):
        is_good(ContentMatch(verdict, why="the MD5 differs"), 7, seen, "obs://b/k")
