"""What a downloaded file is compared with, and when it is read again."""

from __future__ import annotations

import math
from typing import Dict, List, Tuple

import pytest
from hypothesis import given, strategies as st

from path_mapping.errors import Unreachable
from path_mapping.stores import RIGHT, UNKNOWN, UNSURE, WRONG, ContentMatch
from path_mapping.stores.objects import Checksums, part_sizes_of
from path_mapping.transfer.download_jobs import is_good
from path_mapping.transfer.parts import part_size

MIB = 1 << 20
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
def test_what_the_headers_of_a_response_state(headers: Dict[bytes, bytes], stated: Checksums) -> None:
    assert Checksums.stated(headers, 3) == stated


def likely_part_sizes(size: int, parts: int) -> Tuple[int, ...]:
    return part_sizes_of(f"{MD5}-{parts}", size)


@given(size=st.integers(1, 10**11), part=st.sampled_from([5, 8, 9, 15, 16, 64, 100, 512, 5120]))
def test_a_usual_part_size_is_found(size: int, part: int) -> None:
    sizes = likely_part_sizes(size, math.ceil(size / (part * MIB)))
    assert part * MIB in sizes or (size <= part * MIB and sizes == (size,))
    assert {math.ceil(size / one) for one in sizes} == {math.ceil(size / (part * MIB))}


@given(size=st.integers(64 * MIB, 10**13))
def test_our_own_part_size_is_found(size: int) -> None:
    part = part_size(size, 16 * MIB)
    assert part in likely_part_sizes(size, math.ceil(size / part))


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
def test_when_a_file_moves_into_its_place(verdict: str, seen: List[int], good: bool) -> None:
    assert is_good(ContentMatch(verdict), 7, seen) is good


@pytest.mark.parametrize(("verdict", "seen"), [(WRONG, [7]), (WRONG, [1]), (UNSURE, [1, 2])])
def test_a_file_is_not_read_for_ever(verdict: str, seen: List[int]) -> None:
    with pytest.raises(Unreachable, match="the MD5 differs, after"):
        is_good(ContentMatch(verdict, why="the MD5 differs"), 7, seen)
