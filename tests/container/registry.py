"""Debian's docker-registry on loopback, with logins, and a proxy that drops connections."""

from __future__ import annotations

import contextlib
import selectors
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from tests.functional.node import eventually

USER, PASSWORD = "writer", "planted-password"
REGION, ACCESS_KEY, SECRET_KEY = "cn-north-4", "AKPLANTED", "SKPLANTED"
# bcrypt of PASSWORD, and of the HMAC-SHA256 of ACCESS_KEY with SECRET_KEY in hex
LOGINS = f"""\
{USER}:$2b$04$H8rnN8UhT00d4W0QVL5eYe2RyqIxsoMBUCywgCKBgY6MSh7LcvweW
{REGION}@{ACCESS_KEY}:$2b$04$PlfIeL7qi1.IbOFZ969wvuEGyqu3kIHzkZVUSjRTuXEuPtiLDKYNW
"""
CONFIGURATION = """
version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {root}/data}}
http:
  addr: 127.0.0.1:{port}
auth:
  htpasswd: {{realm: test, path: {root}/logins}}
"""


@contextlib.contextmanager
def registry(root: Path) -> Iterator[str]:
    """HOST:PORT of a registry with its images below `root`."""
    (root / "logins").write_text(LOGINS)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (root / "config.yml").write_text(CONFIGURATION.format(root=root, port=port))
    with (root / "log").open("w") as log:
        server = subprocess.Popen(
            ["docker-registry", "serve", str(root / "config.yml")], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        eventually(lambda: _answers(port), "the registry answers")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False
    return True


@contextlib.contextmanager
def breaking(host: str, breaks: Callable[[bytes], bool]) -> Iterator[str]:
    """HOST:PORT of a proxy for `host` (HOST:PORT or a socket's path).

    It drops a connection as soon as `breaks` is true for what the client sends.
    """
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threads: list[threading.Thread] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threads.append(threading.Thread(target=_forward, args=(door.accept()[0], host, breaks)))
                    threads[-1].start()

        accepting = threading.Thread(target=serve)
        accepting.start()
        try:
            yield f"127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            for thread in [accepting, *threads]:
                thread.join(timeout=30)


def _forward(client: socket.socket, host: str, breaks: Callable[[bytes], bool]) -> None:
    with client, _connected(host) as server, selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        with contextlib.suppress(OSError):
            while True:
                for key, _events in ready.select():
                    data, source = _received(key.fileobj)
                    if not data or (source is client and breaks(data)):
                        return
                    key.data.sendall(data)


def _connected(host: str) -> socket.socket:
    if not host.startswith("/"):
        name, _, port = host.partition(":")
        return socket.create_connection((name, int(port)))
    server = socket.socket(socket.AF_UNIX)
    server.connect(host)
    return server


def _received(source: object) -> tuple[bytes, socket.socket]:
    assert isinstance(source, socket.socket)
    return source.recv(1 << 16), source
