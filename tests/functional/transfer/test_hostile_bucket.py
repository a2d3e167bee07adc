"""Responses of a bucket are not trusted: listings, sizes, dates and bodies of a hostile server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from path_mapping.errors import Corrupted, StoreError, TransferFailed, Unreachable
from path_mapping.workers.retry import RetryPolicy
from tests.obs import Fault, FaultProxy, MemoryObs, Seen, operation
from tests.transfers import SilentHandler, fetch, obs_store, route, send, serving, tree, write

MIB = 1 << 20
ONCE = RetryPolicy(0.0)


@pytest.fixture
def proxy(obs: MemoryObs) -> Iterator[FaultProxy]:
    with FaultProxy(obs.url) as served:
        yield served


def listing_of(*contents: str, truncated: bool = False, before: str = "") -> bytes:
    rows = "".join(f"<Contents>{content}</Contents>" for content in contents)
    more = str(truncated).lower()
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{before}<ListBucketResult><Name>bucket</Name>'
        f"<EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated>{rows}</ListBucketResult>"
    ).encode()


def listed(key: str, size: object, etag: str = '"0"') -> str:
    date = "2024-01-01T00:00:00.000Z"
    return (
        f"<Key>{key}</Key><LastModified>{date}</LastModified><ETag>{etag}</ETag><Size>{size}</Size>"
        "<StorageClass>STANDARD</StorageClass>"
    )


def answering(proxy: FaultProxy, name: str, body: bytes, **settings: object) -> None:
    proxy.faults.append(Fault(operation(name), 1_000, status=200, body=body, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["-5", "1_0", "\u0663", "five", "", "1.5", "+5", "9" * 19, "9" * 5000])
def test_a_size_that_is_none_is_a_damaged_listing(proxy: FaultProxy, size: str) -> None:
    answering(proxy, "ListObjects", listing_of(listed("in/a", size)))
    store = obs_store(proxy.url)
    with pytest.raises(Unreachable, match="listing obs://bucket/in/"):
        list(store.list("bucket", "in/"))


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {name} "{f"&{inner};" * 10}">' for name, inner in zip("bcdefghi", "abcdefgh")
)  # fmt: skip


def test_a_listing_of_entities_is_refused_before_they_grow(proxy: FaultProxy) -> None:
    answering(proxy, "ListObjects", listing_of(listed("&i;", 5), before=f"{BOMB}]>"))
    with pytest.raises(Corrupted, match="it has a document type"):
        list(obs_store(proxy.url).list("bucket", ""))
    answering(
        proxy,
        "CreateMultipartUpload",
        f"<?xml version='1.0'?>{BOMB}]><x><UploadId>&i;</UploadId></x>".encode(),
    )
    with pytest.raises(Corrupted, match="it has a document type"):
        obs_store(proxy.url).begin_parts("bucket", "a")


def test_a_page_that_does_not_end_is_not_kept_in_memory(proxy: FaultProxy) -> None:
    answering(proxy, "ListObjects", b" " * (33 * MIB))
    with pytest.raises(Unreachable, match=r"more than the expected 33554432 bytes arrived"):
        list(obs_store(proxy.url).list("bucket", ""))


def test_a_listing_whose_marker_does_not_advance_ends(proxy: FaultProxy) -> None:
    store = obs_store(proxy.url)
    answering(proxy, "ListObjects", listing_of(listed("in/a", 5), truncated=True))
    with pytest.raises(Unreachable, match="'in/a' came after 'in/a'"):
        list(store.list("bucket", "in/"))
    with pytest.raises(Unreachable, match="nothing that comes after 'in/a'"):
        list(store.level("bucket", "in/"))
    with pytest.raises(StoreError):
        fetch(store, Path("/nowhere"), patience=ONCE)
    assert len(proxy.seen) < 30


def test_a_listing_of_parts_that_does_not_advance_ends(proxy: FaultProxy) -> None:
    part = "<Part><PartNumber>1</PartNumber><ETag>x</ETag><Size>5</Size></Part>"
    page = f"<ListPartsResult><UploadId>u</UploadId><IsTruncated>true</IsTruncated>{part}</ListPartsResult>"
    answering(proxy, "ListParts", page.encode())
    with pytest.raises(Unreachable, match="part 1 after part 1"):
        obs_store(proxy.url).begin_parts("bucket", "a", ("u",))


def test_a_listing_of_uploads_that_goes_in_circles_ends(proxy: FaultProxy) -> None:
    pages: list[Fault] = []
    for sent, returned in (("k1", "k2"), ("k2", "k1"), ("", "k1")):

        def asked(seen: Seen, marker: str = sent) -> bool:
            return seen.operation == "ListMultipartUploads" and seen.query.get("key-marker", "") == marker

        markers = f"<NextKeyMarker>{returned}</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
        body = f"<ListMultipartUploadsResult><Bucket>bucket</Bucket>{markers}<IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"
        pages.append(Fault(asked, 1_000, status=200, body=body.encode()))
    proxy.faults += pages
    assert list(obs_store(proxy.url).unfinished("bucket", "")) == []
    assert len(proxy.seen) == 3


@pytest.mark.parametrize("date", ["yesterday", "Mon, 99 Foo 2024 00:00:00 GMT", "\x1b[31m", "-1"])
def test_a_date_that_is_none_is_a_damaged_answer(
    obs: MemoryObs, proxy: FaultProxy, tmp_path: Path, date: str
) -> None:
    send(obs_store(obs.url), write(tmp_path, {"out/a": b"a"}))
    spoilt = Fault(
        operation("HeadObject"), 10, without=("last-modified",), with_headers={"Last-Modified": date}
    )
    proxy.faults.append(spoilt)
    store = obs_store(proxy.url)
    with pytest.raises(Corrupted, match="Last-Modified is") as raised:
        store.find("bucket", "out/a")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "headers", [{"x-amz-checksum-crc64ecma": "9" * 5000}, {"Retry-After": "\xb2"}, {"ETag": '"' + "é" * 99}]
)
def test_headers_that_are_no_numbers_are_ignored(
    obs: MemoryObs, proxy: FaultProxy, tmp_path: Path, headers: dict[str, str]
) -> None:
    send(obs_store(obs.url), write(tmp_path, {"out/a": b"a"}))
    replaced = tuple(name.lower() for name in headers)
    proxy.faults.append(Fault(operation("GetObject"), 1, without=replaced, with_headers=headers))
    fetch(obs_store(proxy.url), tmp_path, route("in", "out/"))
    assert tree(tmp_path / "in") == {"a": b"a"}


def test_keys_with_control_characters_reach_no_terminal(
    obs: MemoryObs, proxy: FaultProxy, tmp_path: Path
) -> None:
    name = "a\x1b[31m\nb\x9b\u202e"
    send(obs_store(obs.url), write(tmp_path, {f"out/{name}": b"a"}))
    proxy.faults.append(Fault(operation("GetObject"), 100, status=403, code="AccessDenied"))
    with pytest.raises(TransferFailed) as raised:
        fetch(obs_store(proxy.url), tmp_path, route("in", "out/"))
    assert all(line.isprintable() for line in str(raised.value).splitlines())
    assert r"out/a\x1b[31m\nb\x9b\u202e" in str(raised.value)
    proxy.faults.clear()
    fetch(obs_store(proxy.url), tmp_path, route("in", "out/"))
    assert tree(tmp_path / "in") == {name: b"a"}


def test_an_etag_with_line_ends_adds_no_header(obs: MemoryObs, proxy: FaultProxy, tmp_path: Path) -> None:
    injected = '"a"&#13;&#10;x-obs-acl: public-read&#13;&#10;&#13;&#10;DELETE /bucket/in/a HTTP/1.1&#13;&#10;'
    answering(proxy, "ListObjects", listing_of(listed("in/a", 40 * MIB, injected)))
    with pytest.raises(TransferFailed, match="not sent: the header If-Match has the character"):
        fetch(obs_store(proxy.url), tmp_path)
    assert {seen.operation for seen in proxy.seen} == {"ListObjects"}


class Longer(SilentHandler):
    """Lists an object of 10 bytes, and sends far more for it; `sent` counts them."""

    protocol_version = "HTTP/1.1"
    how = "length"
    sent = 0

    def do_GET(self) -> None:
        if "/in/a" not in self.path:
            return self._listing()
        kind, piece = type(self), b"x" * MIB
        size = 40 * MIB if "Range" in self.headers else 10
        self.send_response(206 if "Range" in self.headers else 200)
        if "Range" in self.headers:
            self.send_header("Content-Range", self.headers["Range"].replace("=", " ") + f"/{size}")
        if kind.how == "length":
            self.send_header("Content-Length", str(256 * MIB))
        elif kind.how == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()
        with suppress(OSError):
            for _ in range(256):
                self.wfile.write(b"%x\r\n%b\r\n" % (MIB, piece) if kind.how == "chunked" else piece)
                kind.sent += MIB
        self.close_connection = True
        return None

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()

    def _listing(self) -> None:
        body = listing_of(listed("in/a", type(self).size))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    size = 10


@pytest.fixture
def longer() -> Iterator[str]:
    with serving(Longer) as url:
        yield url


@pytest.mark.parametrize("how", ["length", "chunked", "close"])
@pytest.mark.parametrize("kind", ["small", "range"])
def test_a_body_longer_than_its_listing_is_cut_at_once(
    longer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: str
) -> None:
    monkeypatch.setattr(Longer, "how", how)
    monkeypatch.setattr(Longer, "size", 40 * MIB if kind == "range" else 10)
    monkeypatch.setattr(Longer, "sent", 0)
    store = obs_store(longer)
    written: list[int] = []
    write = os.pwrite

    def counted(file: int, data: bytes, offset: int) -> int:
        written.append(offset + len(data))
        return write(file, data, offset)

    monkeypatch.setattr(os, "pwrite", counted)
    with pytest.raises(TransferFailed, match=r"more than the expected (10|16777216) bytes arrived"):
        fetch(store, tmp_path, patience=ONCE)
    assert max(written, default=0) <= Longer.size
    assert Longer.sent < 64 * MIB
