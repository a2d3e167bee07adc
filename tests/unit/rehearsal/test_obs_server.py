"""The pure parts of the OBS server: pages, ranges, conditions, checksums, addresses."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.obs_server.buckets import Refusal, list_page
from ma_boot.desk.rehearsal.obs_server.faults import ObsFault
from ma_boot.desk.rehearsal.obs_server.request import is_modified, parse_head, wanted_range

KEYS = st.lists(st.text("ab/", min_size=1, max_size=6), unique=True, max_size=20).map(sorted)


def entries(keys: list[str], prefix: str, delimiter: str) -> list[tuple[str, bool]]:
    """An unlimited listing in order: names, and whether they are common prefixes."""
    listed = set()
    for key in keys:
        if key.startswith(prefix):
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            listed.add((key, False) if cut < 0 else (key[: cut + 1], True))
    return sorted(listed)


@given(KEYS, st.text("ab/", max_size=2), st.sampled_from(["", "/"]), st.integers(1, 5))
def test_the_pages_of_a_listing_are_the_whole_once(
    keys: list[str], prefix: str, delimiter: str, limit: int
) -> None:
    listed: list[tuple[str, bool]] = []
    marker = ""
    while True:
        page = list_page(keys, prefix, marker, delimiter, limit)
        assert len(page.keys) + len(page.prefixes) <= limit
        listed += sorted([(key, False) for key in page.keys] + [(common, True) for common in page.prefixes])
        if not page.next_marker:
            break
        assert page.next_marker > marker
        marker = page.next_marker
    assert listed == entries(keys, prefix, delimiter)


@given(KEYS, st.text("ab/", max_size=4))
def test_a_marker_is_exclusive(keys: list[str], marker: str) -> None:
    assert list(list_page(keys, "", marker, "", 1000).keys) == [key for key in keys if key > marker]


@given(st.binary(max_size=30), st.integers(0, 40), st.integers(0, 40))
def test_a_range_is_what_slicing_gives(content: bytes, first: int, last: int) -> None:
    try:
        chosen = wanted_range(f"bytes={first}-{last}", len(content))
    except Refusal as refusal:
        assert (refusal.code, content[first:]) == ("InvalidRange", b"")
        return
    if last < first:
        assert chosen is None
        return
    assert chosen is not None
    offset, length = chosen
    assert content[offset : offset + length] == content[first : last + 1]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=1-2,4-5", None),
        ("lines=1-2", None),
        ("bytes=3-", (3, 7)),
        ("bytes=-4", (6, 4)),
        ("bytes=-400", (0, 10)),
    ],
)
def test_other_ranges_of_ten_bytes(header: str, wanted: object) -> None:
    assert wanted_range(header, 10) == wanted


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=-0", 10), ("bytes=10-", 10), ("bytes=0-", 0), ("bytes=-1", 0)]
)
def test_a_range_of_nothing_is_refused(header: str, size: int) -> None:
    with pytest.raises(Refusal):
        wanted_range(header, size)


def test_conditions() -> None:
    assert is_modified({}, "e", 0)
    assert is_modified({"if-match": '"x", "e"'}, "e", 0)
    assert is_modified({"if-match": "*"}, "e", 0)
    assert not is_modified({"if-none-match": "e"}, "e", 0)
    assert is_modified({"if-modified-since": "no date"}, "e", 0)
    with pytest.raises(Refusal):
        is_modified({"copy-if-match": "x"}, "e", 0, "copy-")


@pytest.mark.parametrize(
    ("target", "host", "wanted"),
    [
        ("/", "127.0.0.1:80", ("", "")),
        ("/bucket", "127.0.0.1:80", ("bucket", "")),
        ("/bucket/", "127.0.0.1:80", ("bucket", "")),
        ("/bucket//a/%2e%2E/b%20c?x=/y", "localhost", ("bucket", "/a/../b c")),
        ("/a/b", "bucket.localhost:9000", ("bucket", "a/b")),
        ("/", "buc.ket.localhost", ("buc.ket", "")),
        ("http://bucket.localhost:9/a/b?x=http://y", "bucket.localhost:9", ("bucket", "a/b")),
    ],
)
def test_addresses(target: str, host: str, wanted: object) -> None:
    request = parse_head(f"GET {target} HTTP/1.1\r\nHost: {host}".encode())
    assert request.address("localhost") == wanted


def test_parameters() -> None:
    request = parse_head(b"GET /?uploads&prefix=&a=%2B+%3D&b=1=2& HTTP/1.1")
    assert request.parameters == {"uploads": None, "prefix": "", "a": "+ =", "b": "1=2"}


@pytest.mark.parametrize("head", [b"", b"GET /", b"GET / HTTP/2", b"\x16\x03\x01"])
def test_malformed_request_is_refused(head: bytes) -> None:
    with pytest.raises(Refusal):
        parse_head(head)


def test_a_fault_of_an_unknown_kind_is_told() -> None:
    with pytest.raises(ValueError, match="tpyo"):
        ObsFault("tpyo")
