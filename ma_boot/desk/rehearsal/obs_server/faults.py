"""A request that waits for its response, and the faults that break it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Callable, Protocol

from ma_boot.desk.rehearsal.obs_server.request import Body, Connection, HttpRequest
from ma_boot.desk.rehearsal.obs_server.responses import HttpResponse, failed

TRICKLE_SECONDS, TRICKLE_BYTES = 0.05, 100
ERRORS = {
    "403": (403, "AccessDenied"),
    "404": (404, "NoSuchKey"),
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "expired": (403, "ExpiredToken"),
}
KINDS = {*ERRORS, "cut", "flip", "hang", "reset", "stall", "trickle"}


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

    `kind` is a key of ERRORS, or one of: `hang` (no response; until the server's `release` is set), `reset`
    (RST instead of a response), `stall` (half of the response, then as `hang`), `cut` (half of the response,
    then FIN), `trickle` (a few kilobytes per second), `flip` (one flipped bit). `note` is called for each
    request that it breaks.
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
        elif self.kind == "reset":
            pending.connection.reset()
        else:
            return self._damage(pending, pending.proper().loaded())
        return False

    def _damage(self, pending: PendingRequest, response: HttpResponse) -> bool:
        body = response.body
        if self.kind == "flip":
            return pending.send(replace(response, body=bytes(byte ^ 1 for byte in body[:1]) + body[1:]))
        if pending.request.method == "HEAD":
            return pending.send(response)
        if self.kind == "trickle":
            pending.send_part(response, 0)
            for start in range(0, len(body), TRICKLE_BYTES):
                pending.release.wait(TRICKLE_SECONDS)
                pending.connection.send(body[start : start + TRICKLE_BYTES])
            return False
        pending.send_part(response, len(body) // 2)
        if self.kind == "stall":
            pending.release.wait()
        return False
