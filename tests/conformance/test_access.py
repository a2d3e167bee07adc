"""Access: signatures, signed URLs, connections, buckets."""

from __future__ import annotations

import http.client
from dataclasses import replace
from typing import Callable
from urllib.parse import urlsplit

import pytest

from tests.conformance.clients import Account, Client
from tests.functional.node import eventually


def target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


@pytest.fixture
def raw(account: Account) -> Callable[..., tuple[int, dict[str, str], bytes]]:
    """Sends a request for a signed URL, on a connection that is kept open."""
    connection = http.client.HTTPConnection(urlsplit(account.url).netloc, timeout=30)

    def ask(method: str, url: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target(url), body, named)  # type: ignore[arg-type]
        before = connection.sock
        answer = connection.getresponse()
        content = answer.read()
        assert connection.sock is before, "the connection stays"
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    return ask


Ask = Callable[..., tuple[int, dict[str, str], bytes]]
Connect = Callable[[Account], Client]


def test_a_wrong_secret(account: Account, connect: Connect, client: Client) -> None:
    client.put("a", b"x")
    refused = connect(replace(account, secret_key="WRONG")).get("a")
    assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
    assert connect(replace(account, secret_key="WRONG")).put("b", b"x").status == 403
    assert client.page().keys == ["a"]


def test_an_unknown_access_key(account: Account, connect: Connect, client: Client) -> None:
    refused = connect(replace(account, access_key="UNKNOWN")).put("a", b"x")
    assert (refused.status, refused.code) == (403, "InvalidAccessKeyId")


def test_a_signed_url_is_enough(client: Client, raw: Ask) -> None:
    assert raw("PUT", client.signed_url("PUT", "dir/ü +%"), b"content")[0] == 200
    assert client.get("dir/ü +%").content == b"content"
    assert raw("GET", client.signed_url("GET", "dir/ü +%"))[2] == b"content"
    assert raw("HEAD", client.signed_url("HEAD", "dir/ü +%"))[1]["content-length"] == "7"


def test_a_signed_url_expires(client: Client, raw: Ask) -> None:
    client.put("a", b"x")
    url = client.signed_url("GET", "a", seconds=1)
    assert eventually(lambda: (status := raw("GET", url)[0]) != 200 and status, "its end") == 403


def test_a_signed_url_is_for_one_key_and_one_method(client: Client, raw: Ask) -> None:
    client.put("a", b"x")
    client.put("b", b"y")
    url = client.signed_url("GET", "a")
    assert raw("GET", url.replace("/a?", "/b?"))[0] == 403
    assert raw("PUT", url, b"evil")[0] == 403
    assert client.get("a").content == b"x"


def test_requests_without_a_signature_are_refused(client: Client, raw: Ask) -> None:
    client.put("a", b"x")
    url = client.signed_url("GET", "a").partition("?")[0]
    status, _, body = raw("GET", url)
    assert (status, b"<Code>AccessDenied</Code>" in body) == (403, True)


def test_one_connection_serves_many_requests(client: Client, raw: Ask) -> None:
    urls = {method: client.signed_url(method, "a") for method in ("PUT", "GET", "HEAD")}
    for number in range(20):
        content = bytes([number]) * number * 5000
        assert raw("PUT", urls["PUT"], content)[0] == 200
        assert raw("HEAD", urls["HEAD"])[1]["content-length"] == str(len(content))
        assert raw("GET", urls["GET"])[2] == content
        assert raw("GET", client.signed_url("GET", "nothing"))[0] == 404


def test_range_headers(client: Client, raw: Ask) -> None:
    client.put("a", b"0123456789")
    url = client.signed_url("GET", "a")
    status, headers, content = raw("GET", url, Range="bytes=2-4")
    assert (status, headers["content-range"], content) == (206, "bytes 2-4/10", b"234")
    status, headers, content = raw("GET", url, Range="bytes=-3")
    assert (status, headers["content-range"], content) == (206, "bytes 7-9/10", b"789")
    assert raw("GET", url)[1]["accept-ranges"] == "bytes"


def test_conditions_on_the_modification_time(client: Client, raw: Ask) -> None:
    client.put("a", b"x")
    url = client.signed_url("GET", "a")
    modified = raw("GET", url)[1]["last-modified"]
    assert raw("GET", url, If_Modified_Since=modified)[0] == 304
    assert raw("GET", url, If_Modified_Since="Sat, 01 Jan 2000 00:00:00 GMT")[0] == 200
    assert raw("GET", url, If_Unmodified_Since=modified)[0] == 200
    assert raw("GET", url, If_Unmodified_Since="Sat, 01 Jan 2000 00:00:00 GMT")[0] == 412


def test_an_upload_that_the_client_breaks_off_leaves_nothing(client: Client, account: Account) -> None:
    connection = http.client.HTTPConnection(urlsplit(account.url).netloc, timeout=30)
    connection.putrequest("PUT", target(client.signed_url("PUT", "a")))
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"only this")
    connection.close()
    assert client.put("b", b"x").status == 200
    assert client.page().keys == ["b"]


def test_expect_100_continue(client: Client, account: Account) -> None:
    connection = http.client.HTTPConnection(urlsplit(account.url).netloc, timeout=30)
    connection.putrequest("PUT", target(client.signed_url("PUT", "a")))
    connection.putheader("Content-Length", "7")
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert connection.sock is not None
    assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 ")
    connection.send(b"content")
    assert connection.getresponse().status == 200
    assert client.get("a").content == b"content"
    connection.close()


def test_buckets(client: Client) -> None:
    assert client.head_bucket().status == 200
    client.put("a", b"x")
    refused = client.delete_bucket()
    assert (refused.status, refused.code) == (409, "BucketNotEmpty")
    client.delete("a")
    assert client.delete_bucket().status == 204
    assert client.head_bucket().status == 404
    got = client.get("a")
    assert (got.status, got.code) == (404, "NoSuchBucket")
    assert client.put("a", b"x").code == "NoSuchBucket"
