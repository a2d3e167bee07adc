"""Serves the last sample to Prometheus, or to whoever else asks."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ma_boot.node.observe.record import CONTENT_TYPE
from ma_boot.redact import without_secrets

CLIENT_SECONDS = 2.0  # for a request
MOST_CLIENTS = 32  # at a time: a further one ends the oldest
POLL_SECONDS = 0.1
PAUSE_SECONDS = 0.05  # after a request: whoever asks without end takes no time from the training


class Endpoint(ThreadingHTTPServer):
    """A server in a thread of its own, and one for each client; `text` is what it answers, to one at a time.

    `at` is `PORT`, for all interfaces, or `ADDRESS:PORT`.

    Raises:
        OSError: it cannot listen there.
    """

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, at: str) -> None:
        self.text = ""
        self.answering = threading.Lock()
        self._clients: dict[Any, float] = {}  # and when they have come
        address, _, port = at.rpartition(":")
        everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        host = address.strip("[]") or everywhere
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, int(port)), _Answer)
        threading.Thread(
            target=self.serve_forever, args=(POLL_SECONDS,), name="metrics endpoint", daemon=True
        ).start()

    @property
    def at(self) -> str:
        """The address and the port, also if 0 was asked for, as in a URL."""
        address, port = self.server_address[:2]
        return f"[{address!s}]:{port}" if ":" in str(address) else f"{address!s}:{port}"

    def close(self) -> None:
        """Stops to answer."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.address_family == socket.AF_INET6:  # all interfaces: of both versions
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)  # http.server would ask the DNS for the name of this host
        self.server_address = self.socket.getsockname()[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread; who has come first makes room."""
        if len(self._clients) >= MOST_CLIENTS:
            self._end_those_before(sorted(self._clients.values())[-MOST_CLIENTS // 2])
        self._clients[request] = time.monotonic()
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """Ends a connection."""
        self._clients.pop(request, None)
        super().close_request(request)

    def service_actions(self) -> None:
        """Ends who takes too long, also by a byte now and then."""
        self._end_those_before(time.monotonic() - CLIENT_SECONDS)

    def _end_those_before(self, limit: float) -> None:
        for client, came in list(self._clients.items()):
            if came < limit:
                self._clients.pop(client, None)
                with contextlib.suppress(OSError):  # it has gone
                    client.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or says nothing, is no news."""


class _Answer(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS  # of each read
    server: Endpoint

    def do_GET(self) -> None:
        """The metrics, at `/metrics` and at `/`."""
        body = without_secrets(self.server.text).encode()
        is_known = self.path.partition("?")[0] in ("/metrics", "/")
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body) if is_known else 0))
        self.end_headers()
        with self.server.answering:
            if is_known:
                self.wfile.write(body)
            time.sleep(PAUSE_SECONDS)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are no news."""
