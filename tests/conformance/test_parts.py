"""Uploads in parts."""

from __future__ import annotations

import hashlib

import pytest

from tests.conformance.clients import Client

MIB = 1 << 20
PARTS = [b"a" * (5 * MIB), b"b" * (5 * MIB), b"c" * 99]
DIGESTS = [hashlib.md5(part).digest() for part in PARTS]


def test_parts_become_the_object_in_the_order_of_their_numbers(client: Client) -> None:
    upload = client.create_upload("large +ü")
    etags = {
        number: client.put_part("large +ü", upload, number, PARTS[number - 1]).etag for number in (3, 1, 2)
    }
    assert [etags[number] for number in (1, 2, 3)] == [digest.hex() for digest in DIGESTS]
    assert client.page().keys == [], "no object before the upload is completed"
    done = client.complete("large +ü", upload, sorted(etags.items()))
    assert done.status == 200
    wanted = f"{hashlib.md5(b''.join(DIGESTS)).hexdigest()}-3"
    got = client.get("large +ü")
    assert got.content == b"".join(PARTS)
    assert done.etag in (wanted, ""), "radosgw returns none"
    assert (got.etag, client.head("large +ü").etag, client.page().etags) == (wanted, wanted, [wanted])
    assert client.get("large +ü", range=f"{5 * MIB - 1}-{5 * MIB}").content == b"ab"


def test_uploaded_parts_are_listed_in_pages(client: Client) -> None:
    upload = client.create_upload("a")
    for number in (1, 5, 9):
        client.put_part("a", upload, number, bytes([number]) * number)
    wanted = [(number, number, hashlib.md5(bytes([number]) * number).hexdigest()) for number in (1, 5, 9)]
    assert client.parts("a", upload) == wanted
    assert client.parts("a", upload, limit=2) == wanted[:2]
    assert client.parts("a", upload, after=5) == wanted[2:]


def test_a_part_sent_again_replaces_the_first(client: Client) -> None:
    upload = client.create_upload("a")
    client.put_part("a", upload, 1, b"first")
    etag = client.put_part("a", upload, 1, b"second").etag
    assert [size for _, size, _ in client.parts("a", upload)] == [6]
    assert client.complete("a", upload, [(1, etag)]).status == 200
    assert client.get("a").content == b"second"


@pytest.mark.parametrize("named", [(1, "0" * 32), (2, hashlib.md5(b"one").hexdigest())])
def test_a_missing_part_is_refused(client: Client, named: tuple[int, str]) -> None:
    upload = client.create_upload("a")
    client.put_part("a", upload, 1, b"one")
    refused = client.complete("a", upload, [named])
    assert (refused.status, refused.code) == (400, "InvalidPart")
    assert client.page().keys == []
    assert len(client.parts("a", upload)) == 1, "the upload is still open"


def test_small_parts_are_refused(client: Client) -> None:
    upload = client.create_upload("a")
    named = [(number, client.put_part("a", upload, number, b"small").etag) for number in (1, 2)]
    refused = client.complete("a", upload, named)
    assert (refused.status, refused.code) == (400, "EntityTooSmall")


def test_a_part_may_be_a_range_of_an_object(client: Client) -> None:
    source = bytes(range(256)) * (25 << 10)
    client.put("source", source)
    upload = client.create_upload("a")
    etags = []
    for number, half in ((1, f"0-{5 * MIB - 1}"), (2, f"{5 * MIB}-{len(source) - 1}")):
        etags.append((number, client.copy_part("a", upload, number, "source", half).etag))
    assert [etag for _, etag in etags] == [
        hashlib.md5(half).hexdigest() for half in (source[: 5 * MIB], source[5 * MIB :])
    ]
    assert client.complete("a", upload, etags).status == 200
    assert client.get("a").content == source


def test_an_aborted_upload_is_gone(client: Client) -> None:
    upload = client.create_upload("a")
    etag = client.put_part("a", upload, 1, b"one").etag
    assert client.abort("a", upload).status == 204
    refused = client.abort("a", upload)
    assert (refused.status, refused.code) == (404, "NoSuchUpload")
    for refused in (client.complete("a", upload, [(1, etag)]), client.put_part("a", upload, 2, b"two")):
        assert refused.status in (404, 500), "radosgw answers 500"
    assert (client.page().keys, client.uploads()) == ([], [])


def test_uploads_are_listed_until_they_are_complete(client: Client) -> None:
    ids = {key: client.create_upload(key) for key in ("x/b", "x/a", "y")}
    assert client.uploads() == [(key, ids[key]) for key in ("x/a", "x/b", "y")]
    assert client.uploads("x/") == [(key, ids[key]) for key in ("x/a", "x/b")]
    etag = client.put_part("y", ids["y"], 1, b"one").etag
    assert client.complete("y", ids["y"], [(1, etag)]).status == 200
    client.abort("x/a", ids["x/a"])
    assert client.uploads() == [("x/b", ids["x/b"])]


def test_an_upload_leaves_the_earlier_object_until_it_is_complete(client: Client) -> None:
    client.put("a", b"earlier")
    upload = client.create_upload("a")
    etag = client.put_part("a", upload, 1, b"later").etag
    assert client.get("a").content == b"earlier"
    client.complete("a", upload, [(1, etag)])
    assert client.get("a").content == b"later"
