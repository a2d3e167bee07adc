"""A request that waits for its response, and the faults that break it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable, Protocol

from ma_boot.desk.rehearsal.obs_server.request import Body, Connection, HttpRequest
from ma_boot.desk.rehearsal.obs_server.responses import HttpResponse, failed

# A slow response: 100 bytes every 0.05 seconds.
SLOW_SECONDS, SLOW_BYTES = 0.05, 100
ERRORS = {"503": (503, "SlowDown"), "expired": (403, "ExpiredToken")}
KINDS = {*ERRORS, "slow", "hang"}


@dataclass(frozen=True)
class PendingRequest:
    """One request, numbered from 1 on, and the connection that waits for its response.

    `respond` makes the proper response; `release` is set to end what hangs.
    """

    number: int
    request: HttpRequest
    body: Body
    connection: Connection
    respond: Callable[[HttpRequest, Body], HttpResponse]
    release: threading.Event

    def proper(self) -> HttpResponse:
        """The proper response."""
        return self.respond(self.request, self.body)

    def send(self, response: HttpResponse) -> bool:
        """Sends a response; returns False if the connection is to be closed."""
        whole = self.body.drained()  # first: a client that is still sending may lose the response
        keep = whole and self.request.keeps_alive
        head = response.head(self.number, keep)
        if response.file is None:
            self.connection.send(head + (response.body if self.request.method != "HEAD" else b""))
            return keep
        with response.file:
            if self.request.method == "HEAD":
                self.connection.send(head)
            else:
                self.connection.send_file(head, response.file, response.offset, response.length)
        return keep

    def send_part(self, response: HttpResponse, size: int) -> None:
        """Sends the head of a response that is loaded, and the first bytes of its body."""
        self.body.drained()
        self.connection.send(response.head(self.number, keep=False) + response.body[:size])


class RequestFault(Protocol):
    """A fault that breaks the next `times` requests of some kind."""

    times: int

    def breaks(self, request: HttpRequest) -> bool:
        """Returns whether the fault breaks this request."""

    def serve(self, pending: PendingRequest) -> bool:
        """Serves the request broken; returns False if the connection is to be closed."""


@dataclass
class ObsFault:
    """Breaks the next `times` requests of this method whose path or query, as sent, contains `path`.

    `kind` is a key of ERRORS, `slow` (SLOW_BYTES every SLOW_SECONDS) or `hang` (no response until the
    server's `release` is set). `note` is called for each request that it breaks.
    """

    kind: str
    method: str = "GET"
    path: str = ""
    times: int = 1_000_000
    note: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: found {self.kind!r}, expected one of {sorted(KINDS)}")

    def breaks(self, request: HttpRequest) -> bool:
        """Returns whether the fault breaks this request."""
        return self.method == request.method and self.path in request.target

    def serve(self, pending: PendingRequest) -> bool:
        """Serves the request broken; returns False if the connection is to be closed."""
        self.note()
        if self.kind in ERRORS:
            return pending.send(failed(*ERRORS[self.kind], "an injected fault", pending.request.path))
        if self.kind == "hang":
            pending.release.wait()
            return False
        response = pending.proper()
        if pending.request.method == "HEAD":
            return pending.send(response)
        response = response.loaded()
        pending.send_part(response, 0)
        for start in range(0, len(response.body), SLOW_BYTES):
            pending.release.wait(SLOW_SECONDS)
            pending.connection.send(response.body[start : start + SLOW_BYTES])
        return False
