"""Signed requests and their responses, on connections that are kept open."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Callable, NamedTuple

from path_mapping.errors import (
    Cancelled,
    Corrupted,
    Expired,
    NotFound,
    PathMappingError,
    Refused,
    Unreachable,
)
from path_mapping.stores.access import MOST_REDIRECTS, REDIRECTS, Credentials, is_untrusted
from path_mapping.stores.contents import ContentSum, Piece, sum_content
from path_mapping.stores.http_connection import (
    ConnectionFailed,
    HttpConnection,
    OpenConnections,
    Origin,
    Response,
)
from path_mapping.stores.objects import Checksums
from path_mapping.stores.responses import error_of_status, seconds_to_wait
from path_mapping.stores.signer import OBS, S3, BucketAddress, Signer, request_head, server_of, sign_request
from path_mapping.stores.units import StoredContent

# Bytes of the body of an error that are read.
LONGEST_ERROR = 64 << 10
# Bytes; the largest document is a page of 1,000 keys of 1,024 bytes, each as %XX.
LONGEST_DOCUMENT = 32 << 20
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,64})\s*</Code>")

NOTHING: dict[str, str] = {}

Send = Callable[[HttpConnection, bytes], None]


class Request(NamedTuple):
    """An HTTP request; `doing` names the operation in errors.

    The signature covers `headers`, but not those of `plain`.
    """

    doing: str
    method: str
    bucket: str
    key: str
    query: dict[str, str] = NOTHING
    headers: dict[str, str] = NOTHING
    plain: dict[str, str] = NOTHING


class SentAhead(NamedTuple):
    """A request that was sent ahead: its connection, and the credentials that signed it."""

    origin: Origin
    connection: HttpConnection
    keys: Credentials


class Exchange:
    """Requests of one thread, whose responses are read one after another."""

    def __init__(self, signer: Signer, connections: OpenConnections, buffer: bytearray) -> None:
        self.signer = signer
        self._connections = connections
        self._buffer = buffer
        self._idle: dict[Origin, list[HttpConnection]] = {}
        self._ahead: SentAhead | None = None
        # Checksum in the last upload's response: the next one is most likely of the same kind.
        self._stated = Checksums(crc64=0)

    def check(self) -> None:
        """Raises `Cancelled` after `OpenConnections.shut`: data that arrived since must not be used."""
        if self._connections.shut_down:
            raise Cancelled

    def close(self) -> None:
        """Closes all connections, except those of requests that were sent ahead: see `drop`."""
        for connection in chain.from_iterable(self._idle.values()):
            self._connections.drop(connection)
        self._idle.clear()
        if self._ahead is not None:
            self.drop(self._ahead)
            self._ahead = None

    def drop(self, asked: SentAhead) -> None:
        """Gives up a request that was sent ahead."""
        self._connections.drop(asked.connection)

    def ask_ahead(self, requests: Sequence[Request]) -> list[SentAhead | None]:
        """Sends requests to one bucket, without bodies, whose responses `ask` reads later.

        None stands for a request that cannot be sent now: `ask` sends it, or raises the error.
        """
        try:
            address, keys = self._address(requests[0]), self.signer.access.credentials
            heads = [self._head(address, request) for request in requests]
        except PathMappingError:
            return [None] * len(requests)
        self._open(address.origin, len(requests))
        return [self._sent_ahead(address.origin, head, keys) for head in heads]

    def _sent_ahead(self, origin: Origin, head: bytes, keys: Credentials) -> SentAhead | None:
        """Sends on an idle connection only: opening another one may take until a connect timeout."""
        idle = self._idle.get(origin)
        if not idle:
            return None
        connection = idle.pop()
        try:
            connection.send(head)
        except BaseException as error:
            self._connections.drop(connection)
            if not isinstance(error, ConnectionFailed):
                raise
            return None
        return SentAhead(origin, connection, keys)

    def _open(self, origin: Origin, wanted: int) -> None:
        """Opens connections until so many are idle, as far as that succeeds.

        All at the same time: each takes two or three round trips.
        """
        idle = self._idle.setdefault(origin, [])

        def open_one() -> None:
            with suppress(ConnectionFailed):
                idle.append(self._new(origin))

        threads: list[threading.Thread] = []
        with suppress(RuntimeError):  # the limit of threads of the user or container is reached
            for _ in range(wanted - len(idle) - 1):
                thread = threading.Thread(target=open_one, daemon=True)
                thread.start()
                threads.append(thread)
        if len(idle) < wanted:
            open_one()
        for thread in threads:
            thread.join()

    def send_ahead(self, request: Request) -> None:
        """Sends a GET ahead; the next call must be `content` of the same request."""
        (self._ahead,) = self.ask_ahead([request])

    def content(self, request: Request, body: bytes = b"") -> bytes:
        """Returns the body of the response to a request with this body. Raises the errors of `ask`."""
        ahead, self._ahead = self._ahead, None
        if body:
            request = request._replace(plain={**request.plain, "Content-Length": str(len(body))})
        try:
            return self._content(request, body, ahead)
        except Unreachable as error:
            if ahead is None or not isinstance(error.__cause__, ConnectionFailed):
                raise
        # The server closed the connection before its response was read.
        return self._content(request, body, None)

    def _content(self, request: Request, body: bytes, asked: SentAhead | None) -> bytes:
        def send(connection: HttpConnection, head: bytes) -> None:
            connection.send(head, body)

        with self.ask(request, send, asked) as (response, connection):
            pieces = limit_body(request.doing, connection.body(response), LONGEST_DOCUMENT)
            return b"".join([bytes(piece) for piece in pieces])

    def head(self, request: Request) -> Response:
        """Returns the head of the response to a HEAD. Raises the errors of `ask`."""
        with self.ask(request, HttpConnection.send) as (response, _):
            return response

    def put(
        self, request: Request, body: Callable[[], Iterable[Piece]], size: int, sent: Callable[[int], None]
    ) -> StoredContent:
        """Sends a body of `size` bytes, and compares it with the checksum in the response, if that has one.

        `body` returns its pieces: again if the server had closed the connection, and if the response has a
        checksum of another kind than the last one had. `sent` is called with the size of each piece.

        Raises the errors of `ask` and `body`, and `Corrupted`, with the ETag of the wrong object as `stored`.
        """
        content = ContentSum(self._stated)

        def send(connection: HttpConnection, head: bytes) -> None:
            nonlocal content
            content = ContentSum(self._stated)
            for piece in body():
                connection.send(head, piece)
                content.add(piece)
                sent(len(piece))
                head = b""
            if head:  # the body is empty
                connection.send(head)

        request = request._replace(plain={**request.plain, "Content-Length": str(size)})
        with self.ask(request, send) as (response, connection):
            for _ in limit_body(request.doing, connection.body(response), LONGEST_ERROR):
                pass  # read to the end, so that the connection can be used again
        stated, etag = Checksums.stated(response.headers), response.text("etag")
        if stated.kind not in ("CRC-64", "MD5"):
            if not etag:  # the response of a proxy, which did not wait for the body
                raise Unreachable(f"{request.doing}: the response has neither an ETag nor a checksum")
            return StoredContent(etag, False)
        self._stated = stated
        if content.kind != stated.kind:
            content = sum_content(stated, body())
        try:
            content.check(request.doing, stated)
        except Corrupted as error:
            error.stored = etag
            raise
        return StoredContent(etag, True)

    def put_object(
        self, request: Request, body: Callable[[], Iterable[Piece]], size: int, sent: Callable[[int], None]
    ) -> StoredContent:
        """See `put`. Without a checksum, the object must exist with the response's ETag and this size.

        The response may be that of a proxy, which has not read the body. With credentials that permit no
        reads, the response is trusted.
        """
        stored = self.put(request, body, size, sent)
        if stored.compared:
            return stored
        try:
            head = self.head(Request(request.doing, "HEAD", request.bucket, request.key))
        except NotFound:
            why = "the response has an ETag, but there is no such object"
            raise Unreachable(f"{request.doing}: {why}") from None
        except Expired:
            raise
        except Refused:
            return stored
        if head.text("etag") != stored.etag or head.length not in (None, size):
            actual = f"ETag {head.text('etag')} and {head.length} bytes"
            raise Unreachable(
                f"{request.doing}: found an object with {actual}, expected {stored.etag} and {size}"
            )
        return stored

    @contextmanager
    def ask(
        self, request: Request, send: Send, asked: SentAhead | None = None
    ) -> Iterator[tuple[Response, HttpConnection]]:
        """Opens the successful response to a request; the block must read the complete body.

        `send` sends the request: it is called with the connection and the head. A request that was `asked`
        ahead is only sent again if the server has closed that connection without a response, or refused
        credentials that have been renewed since.

        Raises:
            StoreError: by the status of the response, see `error_of_status`.
            Unreachable: the connection failed, also within the block.
            Refused: the certificate of the server is not accepted.
            Cancelled: the connection was shut by `OpenConnections.shut`.
        """
        connection: HttpConnection | None = None
        try:
            answered = self._answered(asked) if asked is not None else None
            if asked is not None and answered is not None:
                origin, (connection, response) = asked.origin, answered
            else:
                origin, connection, response = self._sent(request, send)
            for _ in range(MOST_REDIRECTS):
                if not self._follows(request, response):
                    break
                self._connections.drop(connection)
                origin, connection, response = self._sent(request, send)
            if response.status >= 300:
                after = seconds_to_wait(response.text("retry-after"))
                # The response to a HEAD has no body, whatever its Content-Length is.
                only_head = request.method == "HEAD"
                if only_head and response.status in (401, 403):
                    self._refused(request, response.status)
                code = None if only_head else _code(connection, response)
                raise error_of_status(request.doing, response.status, code, after)
            yield response, connection
            if not response.closes:
                self._idle.setdefault(origin, []).append(connection)
                connection = None
        except ConnectionFailed as error:
            raise self._failed(request.doing, error) from error
        finally:
            if connection is not None:
                self._connections.drop(connection)

    def _sent(self, request: Request, send: Send) -> tuple[Origin, HttpConnection, Response]:
        address = self._address(request)
        return (address.origin, *self._exchanged(address.origin, self._head(address, request), send))

    def _follows(self, request: Request, response: Response) -> bool:
        """Follows a redirect: True if the request must be sent again. Raises `Rejected`."""
        location = response.text("location")
        if response.status not in REDIRECTS or not location:
            return False
        self.signer.follow(request.doing, response.status, request.bucket, request.key, location)
        return True

    def _head(self, address: BucketAddress, request: Request) -> bytes:
        """Returns the signed head of a request."""
        keys = self.signer.access.credentials
        path, headers = sign_request(
            address, keys, request.method, key=request.key, query=request.query, headers=request.headers
        )
        return request_head(request.doing, request.method, path, {**headers, **request.plain})

    def _failed(self, doing: str, error: ConnectionFailed) -> PathMappingError:
        """Returns the error for a failed connection."""
        if self._connections.shut_down:
            return Cancelled()
        cause = error.__cause__
        if is_untrusted(cause):  # a retry would find the same certificate
            server = server_of(self.signer.access.endpoint)
            return Refused(f"{doing} at {server}: {type(cause).__name__}: {cause}")
        return Unreachable(f"{doing}: {error}")

    def _address(self, request: Request) -> BucketAddress:
        """Returns the address of a request's bucket. Raises the errors of `ask`."""
        return self.signer.bucket(request.bucket) or self._asked_for(request)

    def _asked_for(self, request: Request) -> BucketAddress:
        """Queries, once for each bucket, whether the service knows the signature of OBS.

        That request is unsigned, the same as the SDK's.
        """
        with self.signer.asking:
            known = self.signer.bucket(request.bucket)
            if known is not None:
                return known
            asking = Request(f"querying the signature of obs://{request.bucket}", "HEAD", request.bucket, "")
            doing, response = asking.doing, self._api_version(asking)
            for _ in range(MOST_REDIRECTS):
                if not self._follows(asking, response):
                    break
                response = self._api_version(asking)
            if response.status in (404, 408, 429) or response.status >= 500:
                raise error_of_status(doing, response.status, None)
            is_obs = (response.text("x-obs-api") or response.text("api")) >= "3.0"
            return self.signer.learn(request.bucket, OBS if is_obs else S3)

    def _api_version(self, asking: Request) -> Response:
        address = self.signer.address(asking.bucket)
        head = request_head(asking.doing, "HEAD", "/?apiversion", {"Host": address.host})
        try:
            connection, response = self._exchanged(address.origin, head, HttpConnection.send)
        except ConnectionFailed as error:
            raise self._failed(asking.doing, error) from error
        self._connections.drop(connection)
        return response

    def _refused(self, request: Request, status: int) -> None:
        """Raises the error of a GET of one byte: the refusal of a HEAD has no error code."""
        probe = request._replace(method="GET", plain={**request.plain, "Range": "bytes=0-0"})
        with self.ask(probe, HttpConnection.send):
            # The body is not read: it may be the object.
            raise error_of_status(request.doing, status, None)

    def _exchanged(self, origin: Origin, head: bytes, send: Send) -> tuple[HttpConnection, Response]:
        """Sends on an idle connection, which the server may have closed by now, or on a new one."""
        while True:
            idle = self._idle.get(origin)
            connection = idle.pop() if idle else self._new(origin)
            try:
                return connection, _response(connection, head, send)
            except BaseException as error:
                self._connections.drop(connection)
                if not (isinstance(error, ConnectionFailed) and error.stale):
                    raise

    def _answered(self, asked: SentAhead) -> tuple[HttpConnection, Response] | None:
        """Reads the response to a request that was sent ahead; None if it has to be sent again."""
        connection = asked.connection
        try:
            response = connection.response()
        except BaseException as error:
            self._connections.drop(connection)
            if not (isinstance(error, ConnectionFailed) and error.stale):
                raise
            return None
        if response.status in (401, 403) and asked.keys != self.signer.access.credentials:
            self._connections.drop(connection)
            return None
        return connection, response

    def _new(self, origin: Origin) -> HttpConnection:
        context = self.signer.context if origin.secure else None
        access = self.signer.access
        connection = HttpConnection(origin, context, access.timeout, self._buffer, access.proxy)
        self._connections.add(connection)
        return connection


def _response(connection: HttpConnection, head: bytes, send: Send) -> Response:
    """Sends, and reads the head of the response; a refusal may come before everything was sent."""
    try:
        send(connection, head)
    except ConnectionFailed as broken:
        try:
            early = connection.response()
        except ConnectionFailed:
            raise broken from None
        if early.status < 300:
            raise
        return early._replace(closes=True)
    return connection.response()


def limit_body(doing: str, pieces: Iterable[memoryview], size: int) -> Iterator[memoryview]:
    """Yields the pieces of a body; raises `Unreachable` in place of pieces beyond so many bytes."""
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise Unreachable(f"{doing}: more than the expected {size} bytes arrived")
        yield piece


def _code(connection: HttpConnection, response: Response) -> str | None:
    """Reads the error code in the XML of a response, if there is one."""
    body = b""
    try:
        for piece in connection.body(response):
            body += piece
            if len(body) > LONGEST_ERROR:
                break
    except ConnectionFailed:
        pass  # the status is enough
    match = _CODE.search(body)
    return match[1].decode("ascii") if match else None
