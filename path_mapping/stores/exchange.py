"""One request and its answer on the lean data path: signed by the SDK, sent on a connection that is kept."""

from __future__ import annotations

import re
import ssl
import threading
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, NamedTuple, Optional, Protocol, Set, Tuple

from path_mapping.errors import Cancelled, Unreachable
from path_mapping.stores.http_connection import Answer, Line, LineError, Origin
from path_mapping.stores.obs_responses import error_of_status, seconds_to_wait

LONGEST_ERROR = 64 << 10
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,64})\s*</Code>")

NOTHING: Dict[str, str] = {}


class Signer(Protocol):
    """Who makes a request that the service accepts."""

    context: Optional[ssl.SSLContext]

    def sign(
        self, method: str, bucket: str, key: str, query: Dict[str, str], headers: Dict[str, str]
    ) -> Tuple[Origin, str, Dict[str, str]]:
        """Whom to ask, the path with its query, and the headers to send."""


class Lines:
    """All connections of a process, so that they can be ended under the hands of their threads."""

    def __init__(self) -> None:
        self._lines: Set[Line] = set()
        self._lock = threading.Lock()
        self.ended = False

    def add(self, line: Line) -> None:
        """A new one; it is of no use after `end`."""
        with self._lock:
            self._lines.add(line)
            if self.ended:
                line.shut()

    def drop(self, line: Line) -> None:
        """Closes one."""
        with self._lock:
            self._lines.discard(line)
        line.close()

    def end(self) -> None:
        """Makes every call on a connection fail, now and from now on."""
        with self._lock:
            self.ended = True
            for line in self._lines:
                line.shut()


class Request(NamedTuple):
    """What to ask for; `headers` are signed where the signature covers such, `plain` never matter to it."""

    doing: str
    method: str
    bucket: str
    key: str
    query: Dict[str, str]
    headers: Dict[str, str]
    plain: str


class Exchange:
    """The requests of one thread, one after the other."""

    def __init__(self, signer: Signer, stall: float, lines: Lines, buffer: bytearray) -> None:
        self._signer = signer
        self._stall = stall
        self._all = lines
        self._buffer = buffer
        self._idle: Dict[Origin, Line] = {}

    def close(self) -> None:
        """Ends its connections."""
        for line in self._idle.values():
            self._all.drop(line)
        self._idle.clear()

    @contextmanager
    def ask(self, request: Request, send: Callable[[Line, bytes], None]) -> Iterator[Tuple[Answer, Line]]:
        """The good answer to a request, whose body is read in the block; `send` gets the request's head.

        Raises the `StoreError` of a status, and `Unreachable` for what the network did, to the body too.
        """
        origin, path, headers = self._signer.sign(
            request.method, request.bucket, request.key, request.query, request.headers
        )
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{request.method} {path} HTTP/1.1\r\n{fields}{request.plain}\r\n".encode("latin-1")
        line: Optional[Line] = None
        try:
            line, answer = self._answered(origin, head, send)
            if answer.status >= 300:
                code = _code(line, answer) if request.method != "HEAD" else None
                after = seconds_to_wait(answer.text("retry-after"))
                raise error_of_status(request.doing, answer.status, code, after)
            yield answer, line
            if not answer.closes:
                self._idle[origin], line = line, None
        except LineError as error:
            if self._all.ended:
                raise Cancelled("the transfer was given up") from None
            raise Unreachable(f"{request.doing}: {error}") from error
        finally:
            if line is not None:
                self._all.drop(line)

    def _answered(
        self, origin: Origin, head: bytes, send: Callable[[Line, bytes], None]
    ) -> Tuple[Line, Answer]:
        """Sends on a connection that is there, or on a new one; an old one may have ended unseen."""
        line = self._idle.pop(origin, None)
        if line is not None:
            try:
                return line, _exchanged(line, head, send)
            except LineError as error:
                self._all.drop(line)
                if not error.stale:
                    raise
            except BaseException:
                self._all.drop(line)
                raise
        line = Line(origin, self._signer.context if origin.secure else None, self._stall, self._buffer)
        self._all.add(line)
        try:
            return line, _exchanged(line, head, send)
        except BaseException:
            self._all.drop(line)
            raise


def _exchanged(line: Line, head: bytes, send: Callable[[Line, bytes], None]) -> Answer:
    """Sends and hears; a server may refuse before it has read all, and what it says then is the reason."""
    try:
        send(line, head)
    except LineError as broken:
        try:
            early = line.answer()
        except LineError:
            raise broken from None
        if early.status < 300:
            raise
        return early._replace(closes=True)
    return line.answer()


def _code(line: Line, answer: Answer) -> Optional[str]:
    """The word for an error in its XML, if there is one."""
    body = b""
    try:
        for piece in line.body(answer):
            body += piece
            if len(body) > LONGEST_ERROR:
                break
    except LineError:
        pass  # the status says enough
    found = _CODE.search(body)
    return found[1].decode("ascii") if found else None
