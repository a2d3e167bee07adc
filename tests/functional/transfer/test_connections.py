"""Connections to OBS: certificates, proxies, signatures by host name, and well-formed answers."""

from __future__ import annotations

import json
import pickle
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, ClassVar
from urllib.parse import urlsplit

import pytest

from path_mapping.errors import CredentialsMissing, NotFound, Refused, TransferFailed, Unreachable
from path_mapping.stores.access import Access, Credentials, Proxy, address_of, proxy_for
from path_mapping.stores.blocking import run
from path_mapping.stores.connecting import connect
from path_mapping.stores.http_connection import ConnectionFailed, HttpConnection, Origin, Rooms
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.open_store import open_store
from tests.conftest import CREDENTIALS
from tests.obs import FaultProxy, MemoryObs
from tests.transfers import (
    SilentHandler,
    fetch,
    obs_store,
    resolve_example_hosts_locally,
    route,
    send,
    serving,
    tls_context,
    tree,
    write,
)


def connected(origin: Origin, stall: float = 2.0, trusting: ssl.SSLContext | None = None) -> HttpConnection:
    return run(connect(origin, trusting, stall, Rooms()))


def sent(connection: HttpConnection, head: bytes, body: memoryview | bytes = b"") -> None:
    run(connection.send(head, body))


def pieces_of(connection: HttpConnection, room: int = 4096) -> Iterator[bytes]:
    """Reads a body; each piece is at most as large as the room."""
    view = memoryview(bytearray(room))
    return iter(lambda: bytes(run(connection.piece(view))), b"")


class Canned:
    """A server that answers with given bytes, whatever the request."""

    def __init__(self, *answers: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.origin = Origin("127.0.0.1", self._listener.getsockname()[1], False)
        threading.Thread(target=self._serve, args=(answers,), daemon=True).start()

    def _serve(self, answers: tuple[bytes, ...]) -> None:
        connection, _ = self._listener.accept()
        with connection:
            for answer in answers:
                connection.recv(65536)
                connection.sendall(answer)

    def body(self) -> bytes:
        connection = connected(self.origin)
        sent(connection, b"GET / HTTP/1.1\r\n\r\n")
        try:
            run(connection.response())
            return b"".join(pieces_of(connection))
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-LENGTH:5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            b"abcde",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + b"x" * 10000, b"x" * 10000),
    ],
)
def test_every_kind_of_body_is_read(answer: bytes, body: bytes) -> None:
    assert Canned(answer).body() == body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n" + b"x" * 100,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    ],
)
def test_a_malformed_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(ConnectionFailed):
        Canned(answer).body()


def test_an_endpoint_with_an_ipv6_address(obs: MemoryObs, tmp_path: Path) -> None:
    with FaultProxy(obs.url, "::1") as proxy:
        store = obs_store(proxy.url)
        send(store, write(tmp_path, {"out/a": b"a"}))
        fetch(store, tmp_path, route("in", "out/"))
        assert tree(tmp_path / "in") == {"a": b"a"}
        assert proxy.count("PutObject", "GetObject") == 2


def test_large_and_small_files_over_tls(secure: Callable[[str], str], tmp_path: Path) -> None:
    store = obs_store(
        secure("localhost"), bundle=str(tmp_path / "ca.pem"), multipart_from=6 << 20, part=5 << 20
    )
    contents = {"small": b"small", "large": b"0123456789abcdef" * (34 << 16), "empty": b""}
    write(tmp_path / "out", contents)
    send(store, tmp_path)
    fetch(store, tmp_path, route("in", "out/"))
    assert tree(tmp_path / "in") == contents


@contextmanager
def over_tls(
    tmp_path: Path, answer: Callable[[ssl.SSLSocket], None], stall: float = 20.0
) -> Iterator[HttpConnection]:
    """A connection to a server with TLS that answers once."""
    context = tls_context(tmp_path / "ca.pem")

    def serve(listener: socket.socket) -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        origin = Origin("localhost", listener.getsockname()[1], True)
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        connection = connected(origin, stall, trusting)
        try:
            yield connection
        finally:
            connection.close()
            thread.join()


def test_a_small_body_goes_with_the_head_in_one_record(tmp_path: Path) -> None:
    arrived: list[bytes] = []

    def answer(connection: ssl.SSLSocket) -> None:
        arrived.append(connection.recv(65536))  # at most one record
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with over_tls(tmp_path, answer) as connection:
        sent(connection, b"PUT / HTTP/1.1\r\n\r\n", memoryview(b"body"))
        assert run(connection.response()).status == 200
    assert arrived == [b"PUT / HTTP/1.1\r\n\r\nbody"]


def test_a_large_body_over_tls_arrives_by_the_buffer_not_by_the_record(tmp_path: Path) -> None:
    def answer(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + bytes(200_000))

    with over_tls(tmp_path, answer) as connection:
        run(connection.response())
        pieces = [len(piece) for piece in pieces_of(connection, 65536)]
    assert pieces.count(65536) >= 2
    assert sum(pieces) == 200_000


@pytest.mark.parametrize("secured", [False, True])
def test_a_refusal_before_the_end_of_a_body_ends_the_upload(tmp_path: Path, secured: bool) -> None:
    """From a server that reads nothing more, and keeps the connection open."""
    context, done = tls_context(tmp_path / "ca.pem"), threading.Event()
    source = tmp_path / "a"
    source.write_bytes(bytes(32 << 20))

    def refuse(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        if secured:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            done.wait(30)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        scheme, port = "https" if secured else "http", listener.getsockname()[1]
        host = "localhost" if secured else "127.0.0.1"
        store = obs_store(f"{scheme}://{host}:{port}", bundle=str(tmp_path / "ca.pem"), timeout=20.0)
        with pytest.raises(Refused, match="HTTP 403"):
            store.write("bucket", "a", source, "0" * 32, lambda size: None)
        assert not done.is_set()
        done.set()
        thread.join()


def test_a_body_over_tls_that_only_trickles_fails_after_the_stall_timeout(tmp_path: Path) -> None:
    """Each byte counts once: 2,000 in a second are below the lowest rate, however many pieces they are."""

    def answer(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n")
        with suppress(OSError):  # the client has given up
            for _ in range(100):
                connection.sendall(bytes(200))
                time.sleep(0.1)

    with over_tls(tmp_path, answer, stall=1.0) as connection:
        run(connection.response())
        with pytest.raises(ConnectionFailed, match="receiving: only"):
            list(pieces_of(connection, 65536))


@pytest.mark.parametrize(
    ("name", "bundle", "why"),
    [("other.example", True, "Hostname mismatch"), ("localhost", False, "certificate verify failed")],
)
def test_the_data_path_trusts_no_other_certificate(
    secure: Callable[[str], str], tmp_path: Path, name: str, bundle: bool, why: str
) -> None:
    (tmp_path / "a").write_bytes(b"secret")
    url = secure(name)
    store = obs_store(url, bundle=str(tmp_path / "ca.pem") if bundle else None)
    with pytest.raises(Refused, match=why):
        list(store.list("bucket", ""))
    with pytest.raises(TransferFailed, match=why) as raised:
        send(store, tmp_path, route("a", "a"))
    assert isinstance(raised.value.failures[0].error, Refused)


@pytest.mark.parametrize(("api", "scheme"), [("3.0", "OBS"), ("", "AWS")])
def test_a_host_name_gets_the_bucket_as_prefix_and_the_signature_that_it_knows(
    monkeypatch: pytest.MonkeyPatch, api: str, scheme: str
) -> None:
    heads: list[str] = []

    class Recording(SilentHandler):
        def do_GET(self) -> None:
            head = self.headers
            signature, token = head["Authorization"], head["x-obs-security-token"]
            heads.append(f"{self.command} {head['Host']} {self.path} {signature} {token}")
            self.send_response(404 if self.command == "GET" else 200)
            if api:
                self.send_header("x-obs-api", api)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

    resolve_example_hosts_locally(monkeypatch)
    with serving(Recording) as url:
        port = urlsplit(url).port
        endpoint = f"http://obs.region.example.com:{port}"
        with pytest.raises(NotFound):
            list(ObsStore(Access(endpoint, Credentials("AK", "SK", "TOKEN"))).list("bucket", "dir/a b"))
    host = f"bucket.obs.region.example.com:{port}"
    asked, listed = heads
    assert asked == f"HEAD {host} /?apiversion None None"
    assert listed.startswith(f"GET {host} /?prefix=dir%2Fa%20b&")
    assert re.search(rf" {scheme} AK:[\w+/]{{27}}= ", listed)
    assert listed.endswith(" TOKEN") == (api != "")


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://proxy:3128"}, Proxy("proxy", 3128)),
        ({"HTTPS_PROXY": "proxy:3128"}, Proxy("proxy", 3128)),
        ({"http_proxy": "http://proxy:3128"}, None),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "localhost,.example.com"}, None),
        ({"https_proxy": "http://proxy:3128", "NO_PROXY": "obs.example.com"}, None),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "ample.com"}, Proxy("proxy", 3128)),
        ({"https_proxy": "http://me:p%40ss@proxy"}, Proxy("proxy", 80, "me", "p@ss")),
    ],
)
def test_a_proxy_is_taken_from_the_environment(environ: dict[str, str], proxy: object) -> None:
    assert proxy_for(address_of("obs.example.com"), environ) == proxy


class Tunnels(SilentHandler):
    """A proxy: CONNECT, then bytes both ways."""

    opened: ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        self.opened.append(self.path)
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=self._pump, args=(far, self.connection))
            back.start()
            self._pump(self.connection, far)
            back.join()
        self.close_connection = True

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_all_connections_go_through_a_proxy(
    obs: MemoryObs, secure: Callable[[str], str], tmp_path: Path, scheme: str
) -> None:
    Tunnels.opened.clear()
    url = obs.url if scheme == "http" else secure("localhost")
    (tmp_path / "a").write_bytes(b"by the proxy")
    with serving(Tunnels) as proxy:
        environ = {"OBS_ENDPOINT": url, f"{scheme}_proxy": proxy, **CREDENTIALS}
        if scheme == "https":
            environ["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
        store = open_store(environ, None)
        send(store, tmp_path, route("a", "a"))
        fetch(store, tmp_path, route("b", "a"))
        store.copy("bucket", "a", 12, "bucket", "c")  # by the SDK
    assert (tmp_path / "b").read_bytes() == b"by the proxy"
    assert set(Tunnels.opened) == {urlsplit(url).netloc}
    assert len(Tunnels.opened) > 3


def test_a_proxy_that_refuses_is_named(obs: MemoryObs) -> None:
    refusing = Canned(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n").origin
    store = obs_store(obs.url, proxy=Proxy(refusing.host, refusing.port, "me", "SECRET"))
    with pytest.raises(Unreachable, match=r"by the proxy 127.0.0.1:\d+: .* refused with HTTP 407") as raised:
        store.find("bucket", "a")
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({"S3_ENDPOINT": "obs.example.com"}, "https://obs.example.com"),
        ({"S3_ENDPOINT": "obs.example.com", "S3_USE_HTTPS": "0"}, "http://obs.example.com"),
        ({"S3_ENDPOINT": "https://obs.example.com", "S3_USE_HTTPS": "0"}, "https://obs.example.com"),
        ({"S3_ENDPOINT": "a.example.com", "OBS_ENDPOINT": "b.example.com"}, "https://b.example.com"),
    ],
)
def test_the_platforms_variables_name_the_endpoint(environ: dict[str, str], endpoint: str) -> None:
    store = open_store({**environ, **CREDENTIALS, "S3_VERIFY_SSL": "0"}, None)
    assert isinstance(store, ObsStore)
    assert store.signer.access.endpoint == endpoint
    if endpoint.startswith("https"):
        assert store.signer.context is not None
        assert store.signer.context.check_hostname
        assert store.signer.context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
def test_messages_between_processes_do_not_print_secrets() -> None:
    store = ObsStore(Access("https://obs.example.com", Credentials("AKPLANTED", "SKPLANTED", "TOKENPLANTED")))
    assert "PLANTED" not in repr(store.signer.access)


def test_a_stale_connection_is_told_apart_from_a_fault() -> None:
    served = Canned(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    connection = connected(served.origin)
    _asked(connection)
    assert list(pieces_of(connection)) == [b"ok"]
    with pytest.raises(ConnectionFailed) as raised:
        _asked(connection)
    assert raised.value.stale
    connection.close()


def _asked(connection: HttpConnection) -> None:
    sent(connection, b"GET / HTTP/1.1\r\n\r\n")
    run(connection.response())


def test_missing_credentials_are_all_reported_at_once() -> None:
    with pytest.raises(CredentialsMissing) as raised:
        open_store({"OBS_ACCESS_KEY_ID": "AKPLANTED"}, None)
    assert "OBS_ENDPOINT (or S3_ENDPOINT), OBS_SECRET_ACCESS_KEY" in str(raised.value)
    assert "PLANTED" not in str(raised.value)


@pytest.mark.invariant("A key that was copied wrongly is named before the first request, without its value")
def test_wrongly_copied_settings_are_all_reported_at_once_without_their_values(tmp_path: Path) -> None:
    environ = {
        "S3_ENDPOINT": "https://obs.example.com/bkt ",
        "OBS_ACCESS_KEY_ID": " AKPLANTED",
        "OBS_SECURITY_TOKEN": '"TOKENPLANTED"',
    }
    with pytest.raises(CredentialsMissing) as raised:
        open_store(environ, None)
    assert raised.value.problems == (
        "the path mapping needs OBS, but the environment does not have OBS_SECRET_ACCESS_KEY",
        "OBS_ACCESS_KEY_ID: found a blank at its beginning, expected the value alone: copy it again",
        "OBS_SECURITY_TOKEN: found quotes around it, expected the value alone: copy it again",
        "S3_ENDPOINT: found 'https://obs.example.com/bkt ', expected no blank at its end, no path '/bkt' after the server",
    )
    assert "PLANTED" not in str(raised.value)
    assert pickle.loads(pickle.dumps(raised.value)).problems == raised.value.problems


def test_wrongly_copied_keys_in_a_file_are_reported_with_their_fields(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(
        json.dumps({"access": "AKPLANTED\n", "secret": "SKPLANTED", "securitytoken": "TOKEN PLANTED"})
    )
    with pytest.raises(CredentialsMissing) as raised:
        open_store({"OBS_CREDENTIALS_FILE": str(file), "OBS_CREDENTIALS_WAIT": "long"}, None)
    text = str(raised.value)
    for problem in (
        "OBS_ENDPOINT (or S3_ENDPOINT)",
        "keys.json: access: found a line break at its end",
        "keys.json: securitytoken: found a blank inside",
        "OBS_CREDENTIALS_WAIT: found 'long'",
    ):
        assert problem in text
    assert "PLANTED" not in text


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("ftp://x", "found 'ftp://x'"),
        ("http://127.0.0.1:99999", "expected a port from 1 to 65535"),
        ("127.0.0.1:port", "expected a port from 1 to 65535"),
        ("https://obs.example.com:0", "expected a port from 1 to 65535"),
    ],
)
def test_an_invalid_endpoint_is_reported(endpoint: str, problem: str) -> None:
    with pytest.raises(CredentialsMissing, match=problem):
        open_store({"OBS_ENDPOINT": endpoint, **CREDENTIALS}, None)
