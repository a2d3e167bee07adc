"""Signed requests and their responses, on connections that are kept open.

One exchange serves all tasks of a thread. Tasks are described in `waits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Awaitable, Callable, NamedTuple, TypeVar

from path_mapping.errors import (
    Corrupted,
    Expired,
    NotFound,
    PathMappingError,
    Refused,
    Unreachable,
)
from path_mapping.stores.access import MOST_REDIRECTS, REDIRECTS, is_untrusted
from path_mapping.stores.connecting import connect
from path_mapping.stores.contents import ContentSum, sum_content
from path_mapping.stores.http_connection import (
    ConnectionFailed,
    HttpConnection,
    Origin,
    Piece,
    Response,
    Rooms,
)
from path_mapping.stores.objects import Checksums
from path_mapping.stores.responses import error_of_status, seconds_to_wait
from path_mapping.stores.signer import OBS, S3, BucketAddress, Signer, request_head, server_of, sign_request
from path_mapping.stores.units import StoredContent
from path_mapping.stores.waits import elsewhere, pause

# Bytes of the body of an error that are read.
LONGEST_ERROR = 64 << 10
# Bytes; the largest document is a page of 1,000 keys of 1,024 bytes, each as %XX.
LONGEST_DOCUMENT = 32 << 20
# Seconds between two looks for the signature of a bucket that another task asks for.
_ASKING_SECONDS = 0.005
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,64})\s*</Code>")

NOTHING: dict[str, str] = {}

Send = Callable[[HttpConnection, bytes], Awaitable[None]]
Result = TypeVar("Result")


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


class Answer:
    """A successful response; at the end of its `with` block the connection is kept if the body was read."""

    def __init__(
        self, exchange: Exchange, doing: str, origin: Origin, response: Response, connection: HttpConnection
    ) -> None:
        self.response = response
        # Bytes that the body may have, and that it has had.
        self.most, self._size = LONGEST_DOCUMENT, 0
        self._exchange, self.doing, self._origin = exchange, doing, origin
        self._connection = connection

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *error: object) -> None:
        self._exchange.keep(self._origin, self._connection, self.response)

    async def piece(self, room: memoryview) -> Piece:
        """See `HttpConnection.piece`. Raises `Unreachable`, also in place of a piece beyond `most` bytes."""
        try:
            piece = await self._connection.piece(room)
        except ConnectionFailed as error:
            raise self._exchange.error_of(self.doing, error) from error
        self._size += len(piece)
        if self._size > self.most:
            raise Unreachable(f"{self.doing}: more than the expected {self.most} bytes arrived")
        return piece

    async def content(self) -> bytes:
        """Returns the whole body."""
        if self._connection.is_read:
            return b""
        room = memoryview(bytearray(1 << 16))
        pieces: list[bytes] = []
        while True:
            piece = await self.piece(room)
            if not piece:
                return b"".join(pieces)
            pieces.append(bytes(piece))


class Exchange:
    """Requests of the tasks of one thread."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self._rooms = Rooms()
        self._idle: dict[Origin, list[HttpConnection]] = {}
        # Checksum in the last upload's response: the next one is most likely of the same kind.
        self._stated = Checksums(crc64=0)

    def close(self) -> None:
        """Closes all connections that no task uses."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def keep(self, origin: Origin, connection: HttpConnection, response: Response) -> None:
        """Keeps a connection for the next request, if it can be used again."""
        if response.closes or not connection.is_read:
            connection.close()
        else:
            self._idle.setdefault(origin, []).append(connection)

    async def with_newest(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """See `Signer.with_newest`."""
        used = self.signer.access.credentials
        try:
            return await attempt()
        except Refused as error:
            if not await elsewhere(lambda: self.signer.renewed(used), slow=True):
                self.signer.note_wait(error, used)
                raise
        used = self.signer.access.credentials
        try:
            return await attempt()
        except Refused as error:
            self.signer.note_wait(error, used)
            raise

    async def content(self, request: Request, body: bytes = b"") -> bytes:
        """Returns the body of the response to a request with this body. Raises the errors of `ask`."""
        if body:
            request = request._replace(plain={**request.plain, "Content-Length": str(len(body))})

        with await self.ask(request, lambda connection, head: connection.send(head, body)) as answer:
            return await answer.content()

    async def head(self, request: Request) -> Response:
        """Returns the head of the response to a HEAD. Raises the errors of `ask`."""
        with await self.ask(request) as answer:
            return answer.response

    async def put(
        self, request: Request, body: Callable[[], Iterable[Piece]], sent: Callable[[int], None]
    ) -> StoredContent:
        """Sends a body, and compares it with the checksum in the response, if that has one.

        The request has its Content-Length. `body` returns the pieces: again if the server had closed the
        connection, and if the response has a checksum of another kind than the last one had. `sent` is called
        with the size of each piece.

        Raises the errors of `ask` and `body`, and `Corrupted`, with the ETag of the wrong object as `stored`.
        """
        content = ContentSum(self._stated)

        async def send(connection: HttpConnection, head: bytes) -> None:
            nonlocal content
            content = ContentSum(self._stated)
            pieces = iter(body())
            while True:
                piece = next(pieces, None)
                if piece is None:
                    break
                content.add(piece)
                await connection.send(head, piece)
                sent(len(piece))
                head = b""
            if head:  # the body is empty
                await connection.send(head)

        with await self.ask(request, send) as answer:
            answer.most = LONGEST_ERROR
            await answer.content()  # so that the connection can be used again
        return await self._compared(request.doing, answer.response, content, body)

    async def _compared(
        self,
        doing: str,
        response: Response,
        content: ContentSum,
        body: Callable[[], Iterable[Piece]],
    ) -> StoredContent:
        """Compares content that was sent with the checksum in the response."""
        stated, etag = Checksums.stated(response.headers), response.text("etag")
        if stated.kind not in ("CRC-64", "MD5"):
            if not etag:  # the response of a proxy, which did not wait for the body
                raise Unreachable(f"{doing}: the response has neither an ETag nor a checksum")
            return StoredContent(etag, False)
        self._stated = stated
        if content.kind != stated.kind:
            content = await elsewhere(lambda: sum_content(stated, body()))
        try:
            content.check(doing, stated)
        except Corrupted as error:
            error.stored = etag
            raise
        return StoredContent(etag, True)

    async def put_object(
        self, request: Request, body: Callable[[], Iterable[Piece]], size: int, sent: Callable[[int], None]
    ) -> StoredContent:
        """See `put`. Without a checksum, the object must exist with the response's ETag and this size.

        The response may be that of a proxy, which has not read the body. With credentials that permit no
        reads, the response is trusted.
        """
        stored = await self.put(request, body, sent)
        if stored.compared:
            return stored
        try:
            head = await self.head(Request(request.doing, "HEAD", request.bucket, request.key))
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

    async def ask(self, request: Request, send: Send = HttpConnection.send) -> Answer:
        """Returns the successful response to a request.

        `send` sends the request: it is called with the connection and the head.

        Raises:
            StoreError: by the status of the response, see `error_of_status`.
            Unreachable: the connection failed, also while the body is read.
            Refused: the certificate of the server is not accepted.
        """
        try:
            for left in reversed(range(MOST_REDIRECTS + 1)):
                address = self.signer.bucket(request.bucket) or await self._asked_for(request.bucket)
                head, only_head = self._head(address, request), request.method == "HEAD"
                connection, response = await self._on_some_connection(address.origin, head, send, only_head)
                if response.status < 300:
                    return Answer(self, request.doing, address.origin, response, connection)
                try:
                    if not left or not self._follows(request, response):
                        raise await self._error(request, response, connection)
                finally:
                    connection.close()
        except ConnectionFailed as error:
            raise self.error_of(request.doing, error) from error
        raise AssertionError  # the last pass returns or raises

    async def _error(
        self, request: Request, response: Response, connection: HttpConnection
    ) -> PathMappingError:
        """Returns the error of a response."""
        # The response to a HEAD has no body, whatever its Content-Length is.
        only_head = request.method == "HEAD"
        if only_head and response.status in (401, 403):
            return await self._refused(request, response.status)
        code = None if only_head else await _code(connection)
        after = seconds_to_wait(response.text("retry-after"))
        return error_of_status(request.doing, response.status, code, after)

    async def _refused(self, request: Request, status: int) -> PathMappingError:
        """Returns the error of a GET of one byte: the refusal of a HEAD has no error code."""
        probe = request._replace(method="GET", plain={**request.plain, "Range": "bytes=0-0"})
        try:
            with await self.ask(probe):
                # The body is not read: it may be the object.
                return error_of_status(request.doing, status, None)
        except PathMappingError as error:
            return error

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

    def error_of(self, doing: str, error: ConnectionFailed) -> PathMappingError:
        """Returns the error for a failed connection."""
        cause = error.__cause__
        if is_untrusted(cause):  # a retry would find the same certificate
            server = server_of(self.signer.access.endpoint)
            return Refused(f"{doing} at {server}: {type(cause).__name__}: {cause}")
        return Unreachable(f"{doing}: {error}")

    async def _asked_for(self, bucket: str) -> BucketAddress:
        """Queries, once for each bucket, whether the service knows the signature of OBS. See `ask`.

        That request is unsigned, the same as the SDK's.
        """
        while not self.signer.asking.acquire(blocking=False):  # by another task, or another thread
            await pause(_ASKING_SECONDS)
        try:
            known = self.signer.bucket(bucket)
            if known is not None:
                return known
            asking = Request(f"querying the signature of obs://{bucket}", "HEAD", bucket, "")
            doing, response = asking.doing, await self._api_version(asking)
            for _ in range(MOST_REDIRECTS):
                if not self._follows(asking, response):
                    break
                response = await self._api_version(asking)
            if response.status in (404, 408, 429) or response.status >= 500:
                raise error_of_status(doing, response.status, None)
            is_obs = (response.text("x-obs-api") or response.text("api")) >= "3.0"
            return self.signer.learn(bucket, OBS if is_obs else S3)
        finally:
            self.signer.asking.release()

    async def _api_version(self, asking: Request) -> Response:
        address = self.signer.address(asking.bucket)
        head = request_head(asking.doing, "HEAD", "/?apiversion", {"Host": address.host})
        try:
            connection, response = await self._on_some_connection(
                address.origin, head, HttpConnection.send, True
            )
        except ConnectionFailed as error:
            raise self.error_of(asking.doing, error) from error
        connection.close()
        return response

    async def _on_some_connection(
        self, origin: Origin, head: bytes, send: Send, bodiless: bool
    ) -> tuple[HttpConnection, Response]:
        """Sends on an idle connection, which the server may have closed by now, or on a new one."""
        while True:
            idle = self._idle.get(origin)
            connection = idle.pop() if idle else await self._new(origin)
            try:
                return connection, await _response(connection, head, send, bodiless)
            except BaseException as error:
                connection.close()
                if not (isinstance(error, ConnectionFailed) and error.stale):
                    raise

    async def _new(self, origin: Origin) -> HttpConnection:
        context, access = self.signer.context if origin.secure else None, self.signer.access
        return await connect(origin, context, access.timeout, rooms=self._rooms, proxy=access.proxy)


async def _response(connection: HttpConnection, head: bytes, send: Send, bodiless: bool) -> Response:
    """Sends, and reads the head of the response; a refusal may come before everything was sent."""
    try:
        await send(connection, head)
    except ConnectionFailed as broken:
        try:
            early = await connection.response()
        except ConnectionFailed:
            raise broken from None
        if early.status < 300:
            raise
        return early._replace(closes=True)
    return await connection.response(bodiless)


async def _code(connection: HttpConnection) -> str | None:
    """Reads the error code in the XML of a response, if there is one."""
    body, room = b"", memoryview(bytearray(1 << 12))
    try:
        while len(body) <= LONGEST_ERROR:
            piece = await connection.piece(room)
            if not piece:
                break
            body += piece
    except ConnectionFailed:
        pass  # the status is enough
    match = _CODE.search(body)
    return match[1].decode("ascii") if match else None
