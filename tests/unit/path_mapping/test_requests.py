"""Requests and responses of OBS: signatures as the SDK makes them, and pages of listings."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from obs import const
from obs.auth import Authentication
from obs.convertor import Adapter

from path_mapping.errors import Corrupted, Rejected
from path_mapping.stores.access import Credentials
from path_mapping.stores.http_connection import Origin
from path_mapping.stores.objects import StoredObject
from path_mapping.stores.responses import parse_completion, parse_page, parse_upload, parts_document
from path_mapping.stores.signer import OBS, S3, BucketAddress, SignatureKind, request_head, sign_request

HOST = Origin("obs.example.com", 443, True)
PAGE = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://obs.example.com/doc/2015-06-30/">
  <Name>bucket</Name><Prefix>a</Prefix><Marker/><MaxKeys>1000</MaxKeys>
  <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
  <Contents>
    <Key>a/1%20%2B+%E4%B8%AD</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>
    <ETag>"0123456789abcdef0123456789ABCDEF"</ETag><Size>5</Size>
    <Owner><ID>b4bf1b36d9ca43d984fbcb9491b6fce9</ID></Owner><StorageClass>STANDARD</StorageClass>
  </Contents>
  <Contents><Key>a/2</Key><Size>0</Size><ETag>"0123456789abcdef0123456789abcdef-3"</ETag></Contents>
  <Contents><Type>Appendable</Type><ETag>"0123456789abcdef0123456789abcdef"</ETag><Size>7</Size><Key>a/3</Key></Contents>
  <CommonPrefixes><Prefix>a/%2F/</Prefix></CommonPrefixes>
</ListBucketResult>"""


@pytest.mark.parametrize("kind", [OBS, S3], ids=lambda kind: kind.scheme)
@pytest.mark.parametrize("in_path", [True, False])
@pytest.mark.parametrize("token", [None, "TOKEN"])
@pytest.mark.parametrize(
    ("method", "key", "query", "headers"),
    [
        ("GET", "dir/a b+ü~'中", {}, {}),
        ("PUT", "k", {"partNumber": "7", "uploadId": "a/b+c="}, {"Content-MD5": "bWQ1"}),
        ("GET", "", {"prefix": "a&b", "marker": "", "max-keys": "1000"}, {}),
    ],
)
def test_a_signature_is_that_of_the_sdk(
    kind: SignatureKind,
    in_path: bool,
    token: str | None,
    method: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
) -> None:
    address = BucketAddress("bucket", HOST, "obs.example.com", in_path, kind)
    _, ours = sign_request(address, Credentials("AK", "SK", token), method, key, query, headers)
    signature = ours.pop("Authorization")
    words: Any = Adapter(const.OBS_SIGNATURE if kind is OBS else const.V2_SIGNATURE)
    theirs = Authentication("AK", "SK", in_path, words, "obs.example.com", False)
    assert signature == theirs.doAuth(method, "bucket", key, query, ours)["Authorization"]


def test_the_path_of_a_request_is_escaped() -> None:
    address = BucketAddress("bucket", HOST, "obs.example.com", True, OBS)
    path, _ = sign_request(address, Credentials("AK", "SK"), "GET", "a b/中%", {"uploadId": "x/+="}, {})
    assert path == "/bucket/a%20b/%E4%B8%AD%25?uploadId=x%2F%2B%3D"


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"If-Match": '"a"\r\nx-obs-acl: public-read'}, r"the header If-Match has the character '\r'"),
        ({"If-Match": "a\nb"}, r"the header If-Match has the character '\n'"),
        ({"Authorization": "OBS AK\0:SIGNATURE"}, r"the header Authorization has the character '\x00'"),
        ({"x-obs-security-token": "SECRET\x7f"}, r"the header x-obs-security-token has the character '\x7f'"),
        ({"If-Match": "a\u4e2d"}, "the header If-Match has the character '中'"),
        ({"Range\r\nX": "1"}, r"found the header 'Range\r\nX'"),
        ({"": "1"}, "found the header ''"),
        ({"a b": "1"}, "found the header 'a b'"),
    ],
)
def test_characters_that_would_end_a_header_are_never_sent(headers: dict[str, str], named: str) -> None:
    with pytest.raises(Rejected, match=f"^reading: not sent: {re.escape(named)}") as raised:
        request_head("reading", "GET", "/a", headers)
    assert "SECRET" not in str(raised.value)
    assert "SIGNATURE" not in str(raised.value)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a\n", "/\u4e2d"])
def test_characters_that_would_end_the_request_line_are_never_sent(path: str) -> None:
    with pytest.raises(Rejected, match=r"found the path .*, expected no blanks and no control characters"):
        request_head("reading", "GET", path, {"Host": "obs.example.com"})


def test_the_head_of_a_request() -> None:
    head = request_head("reading", "GET", "/a%20b", {"Host": "obs.example.com", "If-Match": '"\xfc"'})
    assert head == b'GET /a%20b HTTP/1.1\r\nHost: obs.example.com\r\nIf-Match: "\xfc"\r\n\r\n'


def test_a_page_is_read() -> None:
    page = parse_page("listing", PAGE)
    md5 = "0123456789abcdef0123456789abcdef"
    assert page.truncated
    assert page.prefixes == ["a///"]
    assert page.objects == [
        StoredObject("a/1 + 中", 5, md5, '"0123456789abcdef0123456789ABCDEF"'),
        StoredObject("a/2", 0, None, f'"{md5}-3"'),
        StoredObject("a/3", 7, None, f'"{md5}"'),
    ]


def test_keys_that_are_not_coded_stay() -> None:
    text = b"<L><IsTruncated>false</IsTruncated><Contents><Key> a%20b+&amp;&#10;</Key><Size>1</Size></Contents></L>"
    assert [stored.key for stored in parse_page("listing", text).objects] == [" a%20b+&\n"]


@pytest.mark.parametrize("end", range(0, len(PAGE) - 1, 7))
def test_half_a_page_is_damaged(end: int) -> None:
    with pytest.raises(Corrupted, match=r"^listing: the response is damaged"):
        parse_page("listing", PAGE[:end])


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        (b"<Key>a/2</Key>", b"", "it has no Key"),
        (b"<Size>0</Size>", b"", "it has no Size"),
        (b"<Size>0</Size>", b"<Size>x</Size>", "'x'"),
        (b"<IsTruncated>true</IsTruncated>", b"", "it has no IsTruncated"),
    ],
)
def test_a_page_without_what_matters_is_damaged(text: bytes, instead: bytes, message: str) -> None:
    assert text in PAGE
    with pytest.raises(Corrupted, match=message):
        parse_page("listing", PAGE.replace(text, instead))


# What a page may have around or within its objects; most of it gives what follows another meaning.
ODD = [
    b"<?xml version='1.0' encoding='cp1252'?>", b"<?pi >", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a>", b"<a b='>",
    b"</Contents>", b"<IsTruncated>", b"<b>", b"<Key/>", b"<Size>8</Size>", b"&#65;", b"&x;", b"\xff", b"\x00", b"\r\n", b">", b"<",
]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(PAGE)), st.integers(0, 12), st.sampled_from(ODD)), max_size=3))
def test_an_odd_page_is_read_or_damaged(changes: list[tuple[int, int, bytes]]) -> None:
    """Odd pieces are put in, and others left out."""
    page = PAGE
    for at, omitted, piece in changes:
        page = page[:at] + piece + page[at + omitted :]
    with suppress(Corrupted):
        parse_page("listing", page)


@pytest.mark.parametrize("page", ["utf-16", "utf-32", "latin-1"])
def test_a_page_that_is_not_utf_8_is_damaged(page: str) -> None:
    text = f'<?xml version="1.0" encoding="{page}"?><L><IsTruncated>false</IsTruncated><Key>\xfc</Key></L>'
    with pytest.raises(Corrupted, match=r"^listing: the response is damaged"):
        parse_page("listing", text.encode(page))


def test_the_end_of_an_upload_names_its_parts() -> None:
    assert parts_document(['"a"', "<b>"]) == (
        b"<CompleteMultipartUpload>"
        b'<Part><PartNumber>1</PartNumber><ETag>"a"</ETag></Part>'
        b"<Part><PartNumber>2</PartNumber><ETag>&lt;b&gt;</ETag></Part>"
        b"</CompleteMultipartUpload>"
    )


COMPLETED = b"""<?xml version="1.0" encoding="UTF-8"?>
<CompleteMultipartUploadResult xmlns="http://obs.example.com/doc/2015-06-30/">
  <Bucket>bucket</Bucket><Key>a</Key><ETag>&quot;0123-2&quot;</ETag>
</CompleteMultipartUploadResult>"""


def test_completion_of_a_multipart_upload_is_parsed() -> None:
    assert parse_completion("ending", COMPLETED) == '"0123-2"'
    assert parse_completion("ending", b"<CompleteMultipartUploadResult/>") == ""


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "the response is damaged"),
        (COMPLETED[:-9], "the response is damaged"),
        (
            b"<Error><Code>InternalError</Code><Key>a</Key></Error>",
            "not completed: the response has Internal",
        ),
        (b"<html></html>", "no CompleteMultipartUploadResult"),
    ],
)
def test_an_upload_that_does_not_say_so_is_not_complete(document: bytes, message: str) -> None:
    """Status 200 is sent before OBS knows whether it can make the object."""
    with pytest.raises(Corrupted, match=message):
        parse_completion("ending", document)


@pytest.mark.parametrize("document", [b"", b"<U><UploadId>x", b"<U><Key>a</Key></U>", b"<U><UploadId/></U>"])
def test_an_upload_without_an_id_has_not_begun(document: bytes) -> None:
    with pytest.raises(Corrupted, match="the response is damaged"):
        parse_upload("beginning", document)
    assert parse_upload("beginning", b"<U><Key>a</Key><UploadId>x&amp;y</UploadId></U>") == "x&y"
