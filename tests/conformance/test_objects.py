"""Objects: every server answers every client the same."""

from __future__ import annotations

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.clients import Client

CONTENT = bytes(range(256)) * 4


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.mark.parametrize("content", [b"", b"x", b"\0\xff" * 700_000], ids=["empty", "byte", "large"])
def test_get_returns_what_was_put(client: Client, content: bytes) -> None:
    assert client.put("a/b", content).etag == md5(content)
    got = client.get("a/b")
    assert (got.status, got.content, got.etag, got.size) == (200, content, md5(content), len(content))


def test_the_last_put_wins(client: Client) -> None:
    client.put("a", b"first")
    client.put("a", b"second")
    assert client.get("a").content == b"second"
    assert client.page().sizes == [6]


def test_head_agrees_with_get(client: Client) -> None:
    client.put("a", CONTENT, kind="text/x-test")
    head = client.head("a")
    assert (head.status, head.size, head.etag) == (200, len(CONTENT), md5(CONTENT))
    assert head.content_type == "text/x-test"


def test_missing_objects_and_buckets_are_not_found(client: Client) -> None:
    assert (client.get("nothing").status, client.get("nothing").code) == (404, "NoSuchKey")
    assert client.head("nothing").status == 404


@pytest.mark.parametrize(
    ("range", "wanted"),
    [("0-0", CONTENT[:1]), ("5-9", CONTENT[5:10]), ("1000-", CONTENT[1000:]), ("0-99999", CONTENT)],
)
def test_a_range_is_206(client: Client, range: str, wanted: bytes) -> None:
    client.put("a", CONTENT)
    got = client.get("a", range=range)
    assert (got.status, got.content, got.size) == (206, wanted, len(wanted))
    assert got.etag == md5(CONTENT)


def test_a_range_after_the_end_is_416(client: Client) -> None:
    client.put("a", CONTENT)
    got = client.get("a", range="5000-6000")
    assert (got.status, got.code) == (416, "InvalidRange")


def test_if_match(client: Client) -> None:
    client.put("a", CONTENT)
    assert client.get("a", if_match=md5(CONTENT)).content == CONTENT
    assert client.get("a", range="0-9", if_match=md5(CONTENT)).status == 206
    got = client.get("a", if_match=md5(b"another"))
    assert (got.status, got.code) == (412, "PreconditionFailed")


def test_if_none_match(client: Client) -> None:
    client.put("a", CONTENT)
    assert client.get("a", if_none_match=md5(CONTENT)).status == 304
    assert client.get("a", if_none_match=md5(b"another")).status == 200


def test_content_md5_is_checked(client: Client) -> None:
    right, wrong = (base64.b64encode(hashlib.md5(text).digest()).decode() for text in (CONTENT, b"other"))
    assert client.put("right", CONTENT, md5=right).status == 200
    refused = client.put("wrong", CONTENT, md5=wrong)
    assert (refused.status, refused.code) == (400, "BadDigest")
    assert client.page().keys == ["right"]


def test_an_invalid_md5_is_refused(client: Client) -> None:
    refused = client.put("a", CONTENT, md5="short")
    assert (refused.status, refused.code) == (400, "InvalidDigest")


def test_metadata_is_kept(client: Client) -> None:
    client.put("a", b"x", color="blue", size="a b")
    head = client.head("a").metadata
    assert (head["color"], head["size"]) == ("blue", "a b")
    assert client.get("a").metadata["color"] == "blue"


def test_deleting(client: Client) -> None:
    client.put("a", b"x")
    assert client.delete("a").status == 204
    assert client.get("a").status == 404
    assert client.delete("a").status == 204, "deleting a missing key succeeds"
    assert client.page().keys == []


def test_deleting_many(client: Client) -> None:
    for key in ("a", "b&<>", "ü +%", "d"):
        client.put(key, b"x")
    deleted, errors = client.delete_all(["a", "b&<>", "ü +%", "missing"])
    assert (sorted(deleted), errors) == (["a", "b&<>", "missing", "ü +%"], [])
    assert client.page().keys == ["d"]


def test_a_copy_has_the_metadata_of_its_source_or_its_own(client: Client) -> None:
    client.put("source +%ü", CONTENT, kind="text/x-test", color="blue")
    assert client.copy("source +%ü", "copy").etag == md5(CONTENT)
    copied = client.get("copy")
    assert (copied.content, copied.metadata["color"]) == (CONTENT, "blue")
    assert copied.content_type == "text/x-test"
    assert client.copy("source +%ü", "other", color="red").status == 200
    assert client.head("other").metadata["color"] == "red"


def test_copying_a_missing_object(client: Client) -> None:
    assert client.copy("nothing", "b").code == "NoSuchKey"
    assert client.page().keys == []


ODD_KEYS = [
    "with space",
    "plus+percent%41%2F",
    "ünï/中文/😀",
    "a&b=c?d#e",
    "quote'\"<>",
    "new\nline",
    "tab\there",
    "a//b",
    "./x",
    "a/../b",
    "..",
    "dir/",
    "back\\slash",
    "~-_.!*();:@$,[]{}|^`",
    "x" * 1024,
    "é" * 512,
]


@pytest.mark.parametrize("key", ODD_KEYS, ids=[ascii(key)[:20] for key in ODD_KEYS])
def test_unusual_keys_are_kept(client: Client, key: str) -> None:
    assert client.put(key, b"odd").status == 200
    assert client.page().keys == [key]
    assert client.get(key).content == b"odd"
    assert client.head(key).size == 3
    assert client.delete(key).status == 204
    assert client.page().keys == []


def test_a_key_of_1025_bytes_is_refused(client: Client) -> None:
    assert client.put("x" * 1025, b"x").status == 400
    assert client.page().keys == []


def test_concurrent_requests_do_not_mix(client: Client) -> None:
    contents = {f"many/{number:03}": bytes([number]) * (number * 999 + 1) for number in range(96)}
    with ThreadPoolExecutor(16) as pool:
        stored = list(pool.map(lambda item: client.put(*item).status, contents.items()))
        got = list(pool.map(lambda key: client.get(key).content, contents))
    assert set(stored) == {200}
    assert got == list(contents.values())
