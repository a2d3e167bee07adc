"""A fast object store for the benchmark: one epoll loop, sendfile out, uploads thrown away, nothing checked.

    python benchmarks/stub_server.py TREE [LATENCY_SECONDS [KEYS]]

Serves `TREE/<bucket>/<key>` by the S3 protocol as far as the clients of the benchmark speak it, and prints
its port. Packaged servers are the limit themselves (moto 400 objects/s, radosgw 1,600); this one is not. As
OBS does, it states the CRC-64 of objects; for an upload, that of the file of the same name in TREE, and of
its parts of 16 MiB. Of an upload it remembers the size only, so that a client which looks at it afterwards
finds it. KEYS more objects below `bucket/many/` can be listed, not fetched.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import os
import re
import select
import socket
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape

from path_mapping.localfs.source_file import crc64, crc64_of_parts

PIECE = 4 << 20
FIRST = 1 << 15  # bytes of a request that are looked at: its head, and a small object
PART = 16 << 20  # bytes of the parts whose checksum it knows
DATE = "Sat, 01 Jan 2022 00:00:00 GMT"
STAMP = "2022-01-01T00:00:00.000Z"


@dataclass
class Client:
    """One connection: what has come of a request, and what is still to be sent or thrown away."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    discard: int = 0
    answer: bytes = b""
    out: bytes = b""
    file: int = -1
    offset: int = 0
    end: int = 0


class Objects:
    """Keys of all buckets, with the size and the file of each; the CRC-64 of files and of their parts."""

    def __init__(self, tree: Path, keys: int) -> None:
        self.files: dict[str, tuple[int, str | None]] = {}
        self._crcs: dict[str, int] = {}
        self._part_crcs: dict[tuple[str, int, int], int] = {}  # by name, number and size
        for number in range(keys):
            self.files[f"bucket/many/{number // 1000:04}/{number:07}"] = (1000 + number % 1000, None)
        for path in tree.rglob("*"):
            if path.is_file():
                name = path.relative_to(tree).as_posix()
                self.files[name] = (path.stat().st_size, str(path))
                below = _below_its_tree(name)
                self._crcs[below] = self._sum(below, path)
        self._sorted: list[str] = []

    def checksum(self, name: str) -> str:
        """The header that states the CRC-64 of an object, or of one of the same name in another tree."""
        crc = self._crcs.get(_below_its_tree(name))
        return "" if crc is None else f"x-obs-hash-crc64ecma: {crc}\r\n"

    def _sum(self, name: str, path: Path) -> int:
        sizes, crcs = [], []
        with path.open("rb") as file:
            for piece in iter(partial(file.read, PART), b""):
                sizes.append(len(piece))
                crcs.append(crc64(piece))
                self._part_crcs[name, len(sizes), len(piece)] = crcs[-1]
        return crc64_of_parts(crcs, sizes)

    def part_checksum(self, name: str, number: int, size: int) -> str:
        """The header for a part of `PART` bytes, or the last one after such parts."""
        crc = self._part_crcs.get((_below_its_tree(name), number, size))
        return "" if crc is None else f"x-obs-hash-crc64ecma: {crc}\r\n"

    def below(self, prefix: str, after: str, most: int = 1001) -> list[str]:
        """The names after `after` that begin with the prefix."""
        if len(self._sorted) != len(self.files):
            self._sorted = sorted(self.files)
        start = (
            bisect.bisect_right(self._sorted, after)
            if after > prefix
            else bisect.bisect_left(self._sorted, prefix)
        )
        keys = self._sorted[start : start + most]
        return list(itertools.takewhile(lambda name: name.startswith(prefix), keys))

    def level(self, prefix: str, after: str) -> list[str]:
        """The names directly below the prefix: that of a folder ends in `/`, and what is in it is skipped."""
        entries: list[str] = []
        while len(entries) <= 1000:
            names = self.below(prefix, after, 1)
            if not names:
                break
            folder, slash, _ = names[0][len(prefix) :].partition("/")
            entries.append(f"{prefix}{folder}/" if slash else names[0])
            after = f"{prefix}{folder}/\uffff" if slash else names[0]
        return entries


def _below_its_tree(name: str) -> str:
    return name.split("/", 2)[-1]


def etag_of(size: int) -> str:
    """Not an MD5, as of an object that was stored in parts."""
    return f'"{size:032x}-1"'


class Server:
    """Serves until it is ended."""

    def __init__(self, tree: Path, latency: float, keys: int) -> None:
        self.objects = Objects(tree, keys)
        self.latency = latency
        self.parts: dict[str, int] = {}
        self._late: list[tuple[float, int]] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.poll = select.epoll()
        self.poll.register(self.listener, select.EPOLLIN)
        self.clients: dict[int, Client] = {}

    def run(self) -> None:
        """The loop."""
        while True:
            wait = -1.0 if not self._late else max(0.0, self._late[0][0] - time.monotonic())
            for number, _ in self.poll.poll(wait):
                if number == self.listener.fileno():
                    self._accept()
                    continue
                client = self.clients[number]
                try:
                    self._serve(client)
                except ConnectionError:
                    self._drop(client)
            while self._late and self._late[0][0] <= time.monotonic():
                late = self.clients.get(heapq.heappop(self._late)[1])
                if late is not None:
                    self._send(late)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients[connection.fileno()] = Client(connection)
        self.poll.register(connection, select.EPOLLIN)

    def _drop(self, client: Client) -> None:
        del self.clients[client.connection.fileno()]
        self.poll.unregister(client.connection)
        if client.file >= 0:
            os.close(client.file)
        client.connection.close()

    def _serve(self, client: Client) -> None:
        if client.out or client.file >= 0:
            self._send(client)
            return
        if client.discard:
            self._discard(client)
            return
        try:
            received = client.connection.recv(FIRST)
        except BlockingIOError:
            return
        if not received:
            raise ConnectionResetError
        client.received += received
        end = client.received.find(b"\r\n\r\n")
        if end >= 0:
            head = bytes(client.received[:end])
            match = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            length = int(match[1]) if match else 0
            if b"100-continue" in head:
                client.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._request(client, head, length)
            client.discard = length - (len(client.received) - end - 4)
            client.received.clear()
            if client.discard <= 0:
                self._answer(client)

    def _discard(self, client: Client) -> None:
        """Throws a body away without copying it."""
        try:
            while client.discard:
                size = client.connection.recv_into(_SINK, min(client.discard, PIECE), socket.MSG_TRUNC)
                if not size:
                    raise ConnectionResetError
                client.discard -= size
        except BlockingIOError:
            return
        self._answer(client)

    def _answer(self, client: Client) -> None:
        client.out = client.answer
        if self.latency:
            heapq.heappush(self._late, (time.monotonic() + self.latency, client.connection.fileno()))
        else:
            self._send(client)

    def _send(self, client: Client) -> None:
        try:
            if client.out:
                more = socket.MSG_MORE if client.file >= 0 else 0
                sent = client.connection.send(client.out, more)
                client.out = client.out[sent:]
            while client.file >= 0 and not client.out:
                size = min(PIECE, client.end - client.offset)
                client.offset += os.sendfile(client.connection.fileno(), client.file, client.offset, size)
                if client.offset == client.end:
                    os.close(client.file)
                    client.file = -1
        except BlockingIOError:
            pass
        except ConnectionError:
            self._drop(client)
            return
        busy = bool(client.out) or client.file >= 0
        self.poll.modify(client.connection, select.EPOLLOUT if busy else select.EPOLLIN)

    def _request(self, client: Client, head: bytes, length: int) -> None:
        method, target = head.split(b" ", 2)[:2]
        path, _, query = target.decode("latin-1").partition("?")
        name = unquote(path).lstrip("/")
        bucket, _, key = name.partition("/")
        checksum = ""
        if method in (b"GET", b"HEAD") and key:
            self._object(client, method, name, head)
        elif method == b"GET":
            client.answer = _head(200, self._listing(bucket, query)) + self._body
        elif method == b"PUT":
            if "uploadId=" in query:
                asked = parse_qs(query)
                upload, number = asked["uploadId"][0], int(asked["partNumber"][0])
                self.parts[upload] = self.parts.get(upload, 0) + length
                checksum = self.objects.part_checksum(name, number, length)
            elif key:
                self.objects.files[name] = (length, None)
                checksum = self.objects.checksum(name)
            client.answer = _head(200, 0, f"ETag: {etag_of(length)}\r\n{checksum}")
        elif method == b"POST":
            client.answer = self._post(bucket, key, name, query)
        else:
            client.answer = _head(204 if method == b"DELETE" else 200, 0)

    def _object(self, client: Client, method: bytes, name: str, head: bytes) -> None:
        size, file = self.objects.files.get(name, (0, None))
        if name not in self.objects.files or (file is None and method == b"GET"):
            client.answer = _head(404, 0)
            return
        first, last, status = 0, size - 1, 200
        wanted = re.search(rb"(?i)\r\nrange: *bytes=(\d+)-(\d*)", head)
        extra = f"ETag: {etag_of(size)}\r\nLast-Modified: {DATE}\r\n{self.objects.checksum(name)}"
        if wanted:
            first, last, status = int(wanted[1]), min(int(wanted[2] or last), last), 206
            extra += f"Content-Range: bytes {first}-{last}/{size}\r\n"
        client.answer = _head(status, last - first + 1, extra)
        if method == b"GET" and file is not None and last >= first:
            client.file, client.offset, client.end = os.open(file, os.O_RDONLY), first, last + 1

    def _post(self, bucket: str, key: str, name: str, query: str) -> bytes:
        if query.startswith("uploads") or "&uploads" in query:
            upload = f"u{len(self.parts)}{time.monotonic_ns()}"
            self.parts[upload] = 0
            begun = "InitiateMultipartUploadResult"
            text = f"<{begun}><Key>{escape(key)}</Key><UploadId>{upload}</UploadId></{begun}>"
        else:
            size = self.parts.pop(parse_qs(query)["uploadId"][0], 0)
            self.objects.files[name] = (size, None)
            ended, mark = "CompleteMultipartUploadResult", escape(etag_of(size))
            text = f"<{ended}><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>{mark}</ETag></{ended}>"
        return _head(200, len(text.encode())) + text.encode()

    def _listing(self, bucket: str, query: str) -> int:
        asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if "uploads" in asked:
            text = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
        elif "location" in asked:
            text = "<LocationConstraint/>"
        else:
            text = self._keys(bucket, asked)
        self._body = text.encode()
        return len(self._body)

    def _keys(self, bucket: str, asked: dict[str, str]) -> str:
        after = asked.get("continuation-token") or asked.get("start-after") or asked.get("marker") or ""
        prefix = f"{bucket}/{asked.get('prefix', '')}"
        keys_of = self.objects.level if asked.get("delimiter") else self.objects.below
        if after.endswith("/"):
            after += "\uffff"  # a folder that the last page had
        names = keys_of(prefix, f"{bucket}/{after}" if after else prefix)
        truncated, names = len(names) > 1000, names[:1000]
        shown = quote if asked.get("encoding-type") == "url" else escape
        rows, folders = [], set()
        for name in names:
            key = name[len(bucket) + 1 :]
            if asked.get("delimiter") and name.endswith("/"):
                folders.add(key)
                continue
            size = self.objects.files[name][0]
            rows.append(
                f"<Contents><Key>{shown(key)}</Key><LastModified>{STAMP}</LastModified><ETag>{escape(etag_of(size))}</ETag>"
                f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
        last = names[-1][len(bucket) + 1 :] if truncated else ""
        names_last = ("NextMarker", "NextContinuationToken")
        more = "".join(f"<{name}>{shown(last)}</{name}>" for name in names_last) if truncated else ""
        kind = "<EncodingType>url</EncodingType>" if shown is quote else ""
        common = "".join(
            f"<CommonPrefixes><Prefix>{shown(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)
        )
        return (
            f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>{str(truncated).lower()}</IsTruncated>"
            f"<MaxKeys>1000</MaxKeys><KeyCount>{len(rows)}</KeyCount>{more}{kind}"
            f"{''.join(rows)}{common}</ListBucketResult>"
        )


_SINK = bytearray(PIECE)


def _head(status: int, length: int, extra: str = "") -> bytes:
    kind = "OK" if status < 300 else "Not Found"
    return f"HTTP/1.1 {status} {kind}\r\nContent-Length: {length}\r\n{extra}\r\n".encode()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("tree", type=Path)
    options.add_argument("latency", type=float, nargs="?", default=0.0)
    options.add_argument("keys", type=int, nargs="?", default=0)
    asked = options.parse_args()
    server = Server(asked.tree, asked.latency, asked.keys)
    print(server.port, flush=True)
    server.run()
