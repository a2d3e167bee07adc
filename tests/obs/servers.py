"""An OBS that keeps its objects in memory, and a proxy in front of any other one: both inject faults."""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from ma_boot.desk.rehearsal.obs_server.buckets import (
    Bucket,
    BucketObject,
    Buckets,
    ListingPage,
    Refusal,
    list_page,
)
from ma_boot.desk.rehearsal.obs_server.request import Body, HttpRequest, parse_head
from ma_boot.desk.rehearsal.obs_server.responses import HttpResponse
from ma_boot.desk.rehearsal.obs_server.server import HttpServer, ObsServer
from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from tests.obs.faults import Seen

_ETAG = re.compile(rb'(?i)(<etag>(?:"|&quot;|&#34;)?)([0-9a-f]{32})')
_FRAMING = {"connection", "content-length", "date", "expect", "transfer-encoding"}


class MemoryBucket(Bucket):
    """Objects of any key, by an index in memory and a file for each content."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._objects: dict[str, BucketObject] = {}

    def new_file(self) -> Path:
        return self._directory / uuid.uuid4().hex

    def put(self, new: BucketObject) -> BucketObject:
        with self._lock:
            earlier = self._objects.get(new.key)
            self._objects[new.key] = new
            if earlier is not None:
                os.unlink(earlier.path)  # readers have it open already
        return new

    def get(self, key: str) -> BucketObject:
        if key not in self._objects:
            raise Refusal("NoSuchKey", "the object does not exist")
        return self._objects[key]

    def open(self, key: str) -> tuple[BucketObject, BinaryIO]:
        with self._lock:
            stored = self.get(key)
            return stored, open(stored.path, "rb", buffering=0)

    def delete(self, key: str) -> None:
        with self._lock:
            deleted = self._objects.pop(key, None)
            if deleted is not None:
                os.unlink(deleted.path)

    def page(
        self, prefix: str, marker: str, delimiter: str, limit: int
    ) -> tuple[ListingPage, list[BucketObject]]:
        with self._lock:
            page = list_page(sorted(self._objects), prefix, marker, delimiter, limit)
            return page, [self._objects[key] for key in page.keys]

    @property
    def is_empty(self) -> bool:
        return not self._objects


class MemoryBuckets(Buckets):
    def new_bucket(self, directory: Path) -> Bucket:
        return MemoryBucket(directory)


class SeeingServer(HttpServer):
    """Keeps each request in `seen` before it is served."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.seen: list[Seen] = []

    def receive(self, number: int, head: bytes) -> HttpRequest:
        request = parse_head(head)
        seen = Seen(request.method, request.target, request.headers, number)
        self.seen.append(seen)
        return seen

    @property
    def requests(self) -> list[tuple[str, str]]:
        """The method and target of each received request; targets without signatures."""
        return [seen.unsigned for seen in list(self.seen)]

    def count(self, *names: str) -> int:
        """Number of requests of these operations."""
        return sum(seen.operation in names for seen in list(self.seen))


class MemoryObs(SeeingServer, ObsServer):
    """An OBS whose objects live as long as it does, their contents below `root`."""

    def __init__(
        self,
        root: Path,
        credentials: Iterable[KeyPair],
        host: str = "127.0.0.1",
        domain: str = "localhost",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(MemoryBuckets(root / "buckets"), root / "uploads", credentials, host, 0, domain)
        self.root = root
        self._tls = tls
        self._regions: dict[str, str] = {}

    @property
    def url(self) -> str:
        return super().url.replace("http", "https") if self._tls else super().url

    def create_bucket(self, name: str, region: str = "") -> None:
        """Creates a bucket; `region` is what it says of its place."""
        self.buckets.create(name)
        self._regions[name] = region

    def listen(self) -> socket.socket:
        listener = super().listen()
        if self._tls is None:
            return listener
        return self._tls.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)

    def respond(self, request: HttpRequest, body: Body) -> HttpResponse:
        response = super().respond(request, body)
        region = self._regions.get(request.path.strip("/"))
        if request.method == "HEAD" and region:
            place = "bucket-location" if request.prefix == "x-obs-" else "bucket-region"
            response.headers[request.prefix + place] = region
        return response


class FaultProxy(SeeingServer):
    """Forwards requests to `target`; the first fault that fits is taken.

    With `encrypted` all objects look as in a bucket with SSE-KMS: each has an ETag of its own that is no MD5.
    """

    def __init__(self, target: str, host: str = "127.0.0.1", encrypted: bool = False) -> None:
        super().__init__(host, 0)
        self._target, self._encrypted = urlsplit(target).netloc, encrypted

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else super().url

    def listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, 0), family=family, backlog=100)

    def respond(self, request: HttpRequest, body: Body) -> HttpResponse:
        server = http.client.HTTPConnection(self._target)
        try:
            server.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name not in ("connection", "expect"):
                    server.putheader(name, value)
            chunked = "transfer-encoding" in request.headers
            server.endheaders(self._sent(request, body), encode_chunked=chunked)
            with server.getresponse() as answer:
                return self._received(request, answer)
        except (http.client.HTTPException, Refusal) as error:
            raise ConnectionError("one of the two has broken off") from error
        finally:
            server.close()

    def _sent(self, request: HttpRequest, body: Body) -> Iterator[bytes]:
        for piece in body.pieces():
            yield mirrored(piece) if self._encrypted and request.method == "POST" else piece

    def _received(self, request: HttpRequest, answer: http.client.HTTPResponse) -> HttpResponse:
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _FRAMING}
        response = HttpResponse(answer.status, headers, answer.read())
        if self._encrypted:
            response = _encrypted(response, request)
        if request.method != "HEAD":
            return response
        nothing = open(os.devnull, "rb", buffering=0)  # noqa: SIM115 -- closed when the head is sent
        return replace(response, file=nothing, length=int(answer.headers.get("Content-Length", "0")))


def _encrypted(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    headers = dict(response.headers)
    assert isinstance(request, Seen)
    if response.status < 300 and request.operation != "ListObjects":
        headers = {name: _mirrored_value(name, value) for name, value in headers.items()}
        headers["x-amz-server-side-encryption"] = "aws:kms"
    is_document = headers.get("Content-Type") == "application/xml"
    return replace(response, headers=headers, body=mirrored(response.body) if is_document else response.body)


def _mirrored_value(name: str, value: str) -> str:
    return re.sub(r"[0-9a-f]{32}", lambda etag: etag[0][::-1], value) if name.lower() == "etag" else value


def mirrored(document: bytes) -> bytes:
    """The same document with its ETags backwards, which are no MD5s then, and forwards again the next time."""
    return _ETAG.sub(lambda etag: etag[1] + etag[2][::-1], document)
