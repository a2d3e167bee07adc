"""What goes to OBS and comes back: signatures as the SDK makes them, and pages of listings."""

from __future__ import annotations

from typing import Any, Dict, Optional

import pytest
from obs import const
from obs.auth import Authentication
from obs.convertor import Adapter

from path_mapping.errors import Corrupted
from path_mapping.wire import (
    OBS,
    S3,
    BucketAddress,
    Credentials,
    Origin,
    SignatureKind,
    StoredObject,
    parsed_page,
    signed,
)

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
    token: Optional[str],
    method: str,
    key: str,
    query: Dict[str, str],
    headers: Dict[str, str],
) -> None:
    address = BucketAddress("bucket", HOST, "obs.example.com", in_path, kind)
    ours = dict(
        line.split(": ", 1)
        for line in signed(
            address, Credentials("AK", "SK", token), method, key, query, headers
        ).lines.splitlines()
    )
    signature = ours.pop("Authorization")
    words: Any = Adapter(const.OBS_SIGNATURE if kind is OBS else const.V2_SIGNATURE)
    theirs = Authentication("AK", "SK", in_path, words, "obs.example.com", False)
    assert signature == theirs.doAuth(method, "bucket", key, query, ours)["Authorization"]


def test_the_path_of_a_request_is_escaped() -> None:
    address = BucketAddress("bucket", HOST, "obs.example.com", True, OBS)
    asked = signed(address, Credentials("AK", "SK"), "GET", "a b/中%", {"uploadId": "x/+="}, {})
    assert asked.path == "/bucket/a%20b/%E4%B8%AD%25?uploadId=x%2F%2B%3D"


def test_a_page_is_read() -> None:
    page = parsed_page("listing", PAGE)
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
    assert [one.key for one in parsed_page("listing", text).objects] == [" a%20b+&\n"]


@pytest.mark.parametrize("end", range(0, len(PAGE) - 1, 7))
def test_half_a_page_is_damaged(end: int) -> None:
    with pytest.raises(Corrupted, match=r"^listing: the response is damaged"):
        parsed_page("listing", PAGE[:end])


@pytest.mark.parametrize(
    ("there", "instead", "said"),
    [
        (b"<Key>a/2</Key>", b"", "it has no Key"),
        (b"<Size>0</Size>", b"", "it has no Size"),
        (b"<Size>0</Size>", b"<Size>x</Size>", "'x'"),
        (b"<IsTruncated>true</IsTruncated>", b"", "it has no IsTruncated"),
    ],
)
def test_a_page_without_what_matters_is_damaged(there: bytes, instead: bytes, said: str) -> None:
    assert there in PAGE
    with pytest.raises(Corrupted, match=said):
        parsed_page("listing", PAGE.replace(there, instead))
