"""Each fault of the embedded OBS, as a client sees it on the wire."""

from __future__ import annotations

import hashlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from obs import ObsClient

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from tests.functional.node import eventually
from tests.obs import MemoryObs, obs_fault

CONTENT = bytes(range(256)) * 2000
ETAG = f'"{hashlib.md5(CONTENT).hexdigest()}"'


class Line:
    """One connection, with signed URLs for `bucket`."""

    def __init__(self, server: MemoryObs) -> None:
        keys = ("AKPLANTED", "SKPLANTED")
        style = {"path_style": True, "signature": "obs", "client_mode": "workflow"}
        self._sdk = ObsClient(*keys, server=server.url, **style)
        self.connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)

    def send(
        self,
        method: str = "GET",
        key: str = "a",
        body: bytes | None = None,
        query: str = "",
        **headers: str,
    ) -> http.client.HTTPResponse:
        pairs = (part.partition("=") for part in query.split("&") if part)
        special = {name: value or None for name, _, value in pairs}
        url = urlsplit(self._sdk.createSignedUrl(method, "bucket", key, queryParams=special).signedUrl)
        self.connection.request(method, f"{url.path}?{url.query}", body, headers)
        return self.connection.getresponse()

    def ask(self, *arguments: Any, **options: Any) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of the answer to what `send` sends."""
        answer = self.send(*arguments, **options)
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()

    def listing(self) -> bytes:
        """The bucket's listing as XML, of one key a page."""
        url = urlsplit(self._sdk.createSignedUrl("GET", "bucket", queryParams={"max-keys": "1"}).signedUrl)
        self.connection.request("GET", f"{url.path}?{url.query}")
        return self.connection.getresponse().read()


@pytest.fixture
def line(obs: MemoryObs) -> Iterator[Line]:
    line = Line(obs)
    assert line.ask("PUT", "a", CONTENT)[0] == 200
    assert line.ask("PUT", "b", b"b")[0] == 200
    yield line
    line.connection.close()


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("403", 403, b"AccessDenied"),
        ("404", 404, b"NoSuchKey"),
        ("429", 429, b"TooManyRequests"),
        ("500", 500, b"InternalError"),
        ("503", 503, b"SlowDown"),
        ("bad-digest", 400, b"BadDigest"),
        ("expired", 403, b"ExpiredToken"),
    ],
)
def test_refused_request_keeps_its_connection(
    obs: MemoryObs, line: Line, kind: str, status: int, code: bytes
) -> None:
    obs.faults.append(obs_fault(kind, "GET", "/a", times=2))
    for _ in range(2):
        answered, _, body = line.ask()
        assert (answered, b"<Code>" + code + b"</Code>" in body) == (status, True)
        connected = line.connection.sock
    assert line.ask()[2] == CONTENT
    assert line.connection.sock is connected


def test_the_body_is_read_before_an_upload_is_refused(obs: MemoryObs, line: Line) -> None:
    obs.faults.append(obs_fault("503", "PUT", times=1))
    assert line.ask("PUT", "c", b"x" * (4 << 20))[0] == 503
    connected = line.connection.sock
    assert line.ask("PUT", "c", b"x")[0] == 200
    assert line.connection.sock is connected


@pytest.mark.parametrize("kind", ["reset", "reset-body"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_reset_closes_the_connection(obs: MemoryObs, line: Line, kind: str, method: str) -> None:
    obs.faults.append(obs_fault(kind, method, "/c", times=1))
    line.ask("PUT", "c", CONTENT) if method == "GET" else None
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        line.ask(method, "c", b"x" * (8 << 20) if method == "PUT" else None)
    line.connection.close()
    assert line.ask("GET", "c")[0] == (200 if method == "GET" else 404)


def test_cut_ends_the_body_early(obs: MemoryObs, line: Line) -> None:
    obs.faults.append(obs_fault("cut", times=1))
    with pytest.raises(http.client.IncompleteRead) as raised:
        line.ask()
    assert raised.value.partial == CONTENT[: len(CONTENT) // 2]


def test_released_hang_and_stall_end(obs: MemoryObs, line: Line) -> None:
    obs.faults += [obs_fault("hang", times=1), obs_fault("stall", times=1)]
    threading.Timer(0.3, obs.release.set).start()
    with pytest.raises(http.client.RemoteDisconnected):
        line.ask()
    line.connection.close()
    obs.release.clear()
    line.connection.timeout = 0.3
    with pytest.raises(TimeoutError):
        line.ask()
    line.connection.close()


def test_a_dripping_answer_is_complete_but_slow(obs: MemoryObs, line: Line) -> None:
    obs.faults.append(obs_fault("drip", times=1))
    began = time.monotonic()
    assert line.ask()[2] == CONTENT
    assert time.monotonic() - began > 0.15
    obs.faults.append(obs_fault("drip", times=1))
    obs.release.set()
    assert line.ask()[2] == CONTENT


def test_a_trickling_answer_neither_ends_nor_stalls(obs: MemoryObs, line: Line) -> None:
    obs.faults.append(obs_fault("slow", times=1))
    line.connection.timeout = 2
    answer = line.send()
    assert 0 < len(answer.read1()) <= len(CONTENT) / 1000
    obs.release.set()
    assert len(answer.read()) > len(CONTENT) / 2
    line.connection.close()


def test_flipped_bit_changes_the_content(obs: MemoryObs, line: Line) -> None:
    obs.faults.append(obs_fault("flip", times=1))
    _, headers, body = line.ask()
    assert (len(body), body[1:], headers["etag"]) == (len(CONTENT), CONTENT[1:], ETAG)
    assert bin(body[0] ^ CONTENT[0]).count("1") == 1


def test_wrong_range_is_returned(obs: MemoryObs, line: Line) -> None:
    assert "x-obs-checksum-crc64ecma" in line.ask()[1]
    assert "x-obs-checksum-crc64ecma" not in line.ask(Range="bytes=10-19")[1], "it is the whole object's"
    obs.faults.append(obs_fault("ignore-range", times=1))
    status, headers, body = line.ask(Range="bytes=10-19")
    assert (status, "content-range" in headers, body) == (200, False, CONTENT)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_etag_and_checksum_of_another_content_are_returned(obs: MemoryObs, line: Line, method: str) -> None:
    body = CONTENT if method == "PUT" else None
    right = line.ask(method, body=body)[1]
    obs.faults += [
        obs_fault(kind, method, times=1) for kind in ("wrong-etag", "wrong-crc", "encrypted", "appended")
    ]
    etag, crc, encrypted, appended = (line.ask(method, body=body)[1] for _ in range(4))
    assert etag["etag"] == encrypted["etag"] == appended["etag"] == right["etag"][::-1] != right["etag"]
    assert "x-obs-checksum-crc64ecma" not in etag
    assert crc["x-obs-checksum-crc64ecma"] != right["x-obs-checksum-crc64ecma"]
    assert encrypted["x-obs-server-side-encryption"] == "kms"
    assert appended["x-obs-object-type"] == "Appendable"
    assert line.ask(method, body=body)[1]["etag"] == right["etag"]


def test_listing_is_incomplete(obs: MemoryObs, line: Line) -> None:
    whole = line.listing()
    assert b"<NextMarker>a</NextMarker>" in whole
    obs.faults += [obs_fault(kind, times=1) for kind in ("no-marker", "empty", "wrong-etag")]
    assert line.listing() == whole.replace(b"<NextMarker>a</NextMarker>", b"")
    assert line.listing() == b" " * len(whole)
    assert line.listing() == whole.replace(ETAG.strip('"').encode(), ETAG.strip('"').encode()[::-1])


def test_server_stops_with_connected_clients(tmp_path: Path) -> None:
    before = threading.active_count()
    with MemoryObs(tmp_path, [KeyPair("AKPLANTED", "SKPLANTED")]) as server:
        server.create_bucket("bucket")
        server.faults.append(obs_fault("hang"))
        idle = socket.create_connection(("127.0.0.1", server.port))
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(b"GET /bucket HTTP/1.1\r\nHo")
        waiting = socket.create_connection(("127.0.0.1", server.port))
        waiting.sendall(b"GET /bucket HTTP/1.1\r\n\r\n")
        eventually(lambda: server.seen, "the request of `waiting`")
    for connection in (idle, half, waiting):
        connection.settimeout(10)
        assert connection.recv(1) == b""
        connection.close()
    assert threading.active_count() == before


def test_a_disk_failure_is_answered_with_an_error(obs: MemoryObs, line: Line) -> None:
    for content in (obs.root / "buckets" / "bucket").iterdir():
        content.unlink()
    status, _, body = line.ask("GET", "a")
    assert (status, b"<Code>InternalError</Code>" in body) == (500, True)


def test_of_two_appends_at_one_position_the_second_is_refused(obs: MemoryObs) -> None:
    """A client that repeats a request after a late answer must not get 500."""
    lines = [Line(obs) for _ in range(3)]
    content = bytes(4 << 20)
    for position in range(0, 5 * len(content), len(content)):
        start, statuses = threading.Barrier(len(lines)), []

        def append(line: Line, query: str) -> None:
            start.wait()  # noqa: B023 - joined
            statuses.append(line.ask("POST", "log", content, query)[0])  # noqa: B023 - joined

        threads = [
            threading.Thread(target=append, args=(line, f"append&position={position}")) for line in lines
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 409, 409]
    assert len(lines[0].ask("GET", "log")[2]) == 5 * len(content)
    for line in lines:
        line.connection.close()
