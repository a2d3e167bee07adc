"""Requests that OBS redirects: to another region they are signed anew, to another domain no credentials go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Callable
from urllib.parse import urlsplit

import pytest

from path_mapping.errors import Refused, Rejected, TransferFailed
from path_mapping.stores.access import Access, Credentials, redirect_target
from path_mapping.stores.obs_store import ObsStore
from tests.conftest import KNOWN
from tests.obs import Fault, FaultProxy, MemoryObs, Seen
from tests.transfers import (
    KEYS,
    content_of,
    fetch,
    obs_store,
    resolve_example_hosts_locally,
    route,
    send,
    tree,
    write,
)

MIB = 1 << 20
STATUSES = (301, 302, 307, 308)


@pytest.fixture
def first(obs: MemoryObs) -> Iterator[FaultProxy]:
    """A server in front of the one that has the bucket, as that of another region."""
    with FaultProxy(obs.url) as proxy:
        yield proxy


def redirecting(status: int, to: str, **settings: object) -> Fault:
    """Every request is answered with this status, and the same path on another server."""
    fault = Fault(lambda seen: True, times=1_000, status=status, code="TemporaryRedirect", body=b"")

    def led(seen: Seen) -> None:
        fault.with_headers = {"Location": to + seen.path}

    fault.before = led
    return fault


@pytest.mark.parametrize("status", STATUSES)
def test_every_kind_of_request_follows(
    obs: MemoryObs, first: FaultProxy, tmp_path: Path, status: int
) -> None:
    first.faults.append(redirecting(status, obs.url))
    contents = {"a": b"a", "b/large": b"0123456789abcdef" * (7 << 16)}
    write(tmp_path / "out", contents)
    send(obs_store(first.url, multipart_from=6 * MIB, part=5 * MIB), tmp_path)
    fetch(obs_store(first.url), tmp_path, route("in", "out/"))
    assert tree(tmp_path / "in") == contents
    assert obs_store(first.url).find("bucket", "out/a") is not None
    assert obs_store(first.url).find("bucket", "none") is None


@pytest.mark.parametrize("status", STATUSES)
def test_so_do_the_requests_of_the_sdk(
    obs: MemoryObs, first: FaultProxy, tmp_path: Path, status: int
) -> None:
    send(obs_store(obs.url), write(tmp_path, {"out/a": b"content"}))
    first.faults.append(redirecting(status, obs.url))
    actions: list[Callable[[ObsStore], object]] = [
        lambda store: store.copy("bucket", "out/a", 1, "bucket", "copy"),
        lambda store: store.write(
            "bucket", "b", tmp_path / "out" / "a", "9a0364b9e99bb480dd25e1f0284c8555", print
        ),
        lambda store: store.region("bucket"),
        lambda store: list(store.unfinished("bucket", "")),
    ]
    for action in actions:
        action(obs_store(first.url))
    assert content_of(obs_store(first.url), "copy") == b"content"
    assert b"".join(obs_store(first.url).read_from("bucket", "b", 3)) == b"tent"
    obs_store(first.url).delete("bucket", "copy")
    assert obs_store(obs.url).find("bucket", "copy") is None


def test_a_bucket_that_moved_is_asked_there_from_then_on(
    obs: MemoryObs, first: FaultProxy, tmp_path: Path
) -> None:
    first.faults.append(redirecting(307, obs.url))
    store = obs_store(first.url)
    send(store, write(tmp_path, {f"out/{number}": b"x" for number in range(10)}))
    assert len(first.seen) < 5, "each thread asks the first one at most once"


def test_a_redirect_in_a_circle_ends(first: FaultProxy) -> None:
    first.faults.append(redirecting(307, first.url))
    with pytest.raises(Rejected, match="HTTP 307: redirected too often, or without a place: OBS_ENDPOINT"):
        obs_store(first.url).find("bucket", "a")
    assert len(first.seen) == 11
    with pytest.raises(Rejected, match="redirected too often"):
        obs_store(first.url).delete("bucket", "a")
    assert len(first.seen) == 22


@pytest.mark.parametrize("by_sdk", [True, False])
def test_another_domain_gets_no_credentials(obs: MemoryObs, tmp_path: Path, by_sdk: bool) -> None:
    with FaultProxy(obs.url, "127.0.0.2") as other, FaultProxy(obs.url) as here:
        here.faults.append(redirecting(307, other.url))
        store = obs_store(here.url)
        with pytest.raises(Rejected) as raised:
            store.delete("bucket", "a") if by_sdk else store.find("bucket", "a")
        assert other.seen == []
        assert f"set OBS_ENDPOINT to {other.url}" in str(raised.value)
        assert f"HTTP 307 to {other.url}/bucket/a is not followed" in str(raised.value)


def test_another_region_is_signed_for_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    resolve_example_hosts_locally(monkeypatch)
    root = tmp_path_factory.mktemp("region")
    with MemoryObs(root, KNOWN, domain="obs.two.example.com") as server, FaultProxy(server.url) as proxy:
        server.create_bucket("bucket")
        port = urlsplit(proxy.url).port
        other_region = f"http://bucket.obs.two.example.com:{server.port}"
        proxy.faults.append(redirecting(307, other_region))
        store = ObsStore(Access(f"http://obs.one.example.com:{port}", KEYS))
        send(store, write(tmp_path, {"out/a": b"a", "out/b c/+ü": b"b"}))
        fetch(store, tmp_path, route("in", "out/"))
        assert tree(tmp_path / "in") == {"a": b"a", "b c/+ü": b"b"}
        store.copy("bucket", "out/a", 1, "bucket", "copy")
        assert content_of(store, "copy") == b"a"


HERE = "https://obs.cn-north-4.myhuaweicloud.com"


@pytest.mark.parametrize(
    ("endpoint", "location", "led"),
    [
        (HERE, "https://bucket.obs.cn-east-3.myhuaweicloud.com/a%20b", "https://obs.cn-east-3.myhuaweicloud.com"),
        (HERE, "https://obs.cn-east-3.myhuaweicloud.com/bucket/a%20b?x", "https://obs.cn-east-3.myhuaweicloud.com"),
        (HERE, "//bucket.obs.myhuaweicloud.com:8443/a%20b", "https://obs.myhuaweicloud.com:8443"),
        (HERE, "/a%20b", HERE),
        ("https://obs.myhuaweicloud.com", "https://bucket.obs.x.myhuaweicloud.com/a b", "https://obs.x.myhuaweicloud.com"),
        ("http://obs.x.example.com", "https://bucket.obs.y.example.com/a b", "https://obs.y.example.com"),
        ("http://127.0.0.1:1", "http://127.0.0.1:2/bucket/a b", "http://127.0.0.1:2"),
        ("http://[::1]:1", "http://[::1]:2/bucket/a b", "http://[::1]:2"),
    ],
)  # fmt: skip
def test_where_a_redirect_leads(endpoint: str, location: str, led: str) -> None:
    assert redirect_target(urlsplit(endpoint), "bucket", "a b", location).geturl() == led


@pytest.mark.parametrize(
    ("endpoint", "location", "why"),
    [
        (HERE, "http://bucket.obs.cn-east-3.myhuaweicloud.com/a", "credentials do not go from https to http"),
        (HERE, "https://bucket.obs.cn-north-4.myhuaweicloud.com.evil.example/a", "do not go to another domain"),
        (HERE, "https://bucket.evilmyhuaweicloud.com/a", "set OBS_ENDPOINT to https://evilmyhuaweicloud.com"),
        (HERE, "https://obs.cn-north-4.myhuaweicloud.com@evil.example/bucket/a", "do not go to another domain"),
        (HERE, "https://192.0.2.7/bucket/a", "do not go to another domain"),
        (HERE, "ftp://bucket.obs.cn-east-3.myhuaweicloud.com/a", "credentials do not go from https to ftp"),
        (HERE, "https://other.obs.cn-east-3.myhuaweicloud.com/a", "it is not in the bucket bucket"),
        (HERE, "https://bucket.obs.cn-east-3.myhuaweicloud.com/b", "it is another object"),
        (HERE, "https://bucket.obs.cn-east-3.myhuaweicloud.com:x/a", "Port could not be cast"),
        (HERE, "https://[bucket/a", "Invalid IPv6 URL"),
        ("https://obs.company.com.br", "https://bucket.obs.evil.com.br/a", "do not go to another domain"),
        ("http://127.0.0.1", "http://127.0.0.2/bucket/a", "do not go to another domain"),
        ("http://localhost", "http://1.localhost.example/bucket/a", "do not go to another domain"),
    ],
)  # fmt: skip
def test_where_no_redirect_leads(endpoint: str, location: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        redirect_target(urlsplit(endpoint), "bucket", "a", location)


@pytest.mark.parametrize("by_sdk", [True, False])
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "InvalidArgument", "HTTP 400 InvalidArgument: the service takes the request for an invalid one"),
        (405, "MethodNotAllowed", "HTTP 405 MethodNotAllowed: the service does not permit this for anybody here"),
        (409, "BucketNotEmpty", "HTTP 409 BucketNotEmpty: it conflicts with the state of the bucket or object"),
        (416, "InvalidRange", "HTTP 416 InvalidRange: the object is shorter than what was asked of it"),
        (301, "PermanentRedirect", "HTTP 301 PermanentRedirect: redirected too often, or without a place"),
        (413, "EntityTooLarge", "HTTP 413 EntityTooLarge"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_possible_is_no_matter_of_credentials(
    obs: MemoryObs, first: FaultProxy, tmp_path: Path, by_sdk: bool, status: int, code: str, message: str
) -> None:
    asked = []

    def renew() -> Credentials:
        asked.append(1)
        return KEYS

    store = ObsStore(Access(first.url, KEYS), renew=renew)
    first.faults.append(Fault(lambda seen: True, 100, status=status, code=code))
    with pytest.raises((Rejected, TransferFailed), match=message) as raised:
        store.delete("bucket", "a") if by_sdk else send(store, write(tmp_path, {"out/a": b"a"}))
    error = raised.value.failures[0].error if isinstance(raised.value, TransferFailed) else raised.value
    assert isinstance(error, Rejected)
    assert not isinstance(error, Refused)
    assert asked == []
