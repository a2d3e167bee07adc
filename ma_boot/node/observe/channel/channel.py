"""The way between node 0 and each other node of a job, in a thread of its own.

Whoever calls it never waits: messages go out in the background, and what has come is kept until it is asked
for. Whatever arrives that is no right message is dropped without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import (
    Any,
    Callable,
    NamedTuple,
)

from ma_boot.node.observe.channel import protocol
from ma_boot.node.observe.channel.protocol import Address, Session
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.processes.signals import SignalInbox

GREETING_SECONDS = 2.0  # from the first byte to both proofs
CONNECT_SECONDS = 1.5
FIRST_RETRY, LONGEST_RETRY = 0.2, 2.0  # seconds
LOST_SECONDS = 0.5  # without a connection, until a node counts as unreached
# Without a new connection, until a node is dead. The kernel closes the connections of a process that dies,
# and refuses new ones; a living one calls again within LONGEST_RETRY + CONNECT_SECONDS. Where nothing has
# closed the connection, the network may be down, which a job survives for 30 s.
DIED_SECONDS, OUTAGE_SECONDS = 6.0, 35.0
DEAD_SECONDS = 4  # without an answer of the other machine, until its connection counts as broken
QUIET_SECONDS = 10  # after which the kernel asks whether the other machine is there
MOST_STRANGERS = 64  # connections that have proved nothing yet: a further one ends the oldest
ACCEPTED_AT_ONCE, ACCEPT_PAUSE = 32, 0.05  # so a flood costs little of a core
MOST_WAITING = 16  # messages to one node
MOST_OF_ONE_NODE, MOST_KEPT_BYTES = 2 << 20, 16 << 20  # of messages that nobody has asked for
MOST_KEPT_OF_EACH = 32 << 10  # of large jobs: the stacks of a node with 8 ranks have 17 KB
MOST_OF_A_NODE, IN_SECONDS = 20, 10.0  # messages: further ones are read later
CLOSE_SECONDS = 0.2
FLUSH_PAUSE = 0.01
WAITING = 128  # connections that the kernel keeps until they are accepted


class _Told(NamedTuple):
    kind: str
    when: float
    body: str


class _Link:
    """Messages that wait for a node, and the time since which it has no connection (None while it has one).

    `closed` is since when the node's machine has closed the connection: its process may have died.
    """

    def __init__(self) -> None:
        self.waiting: deque[_Told] = deque(maxlen=MOST_WAITING)
        self.more = asyncio.Event()
        self.taken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.connected = False
        self.broken: float | None = time.monotonic()
        self.closed: float | None = None
        self.times: deque[float] = deque()

    @property
    def is_dead(self) -> bool:
        """True once a node that was connected has been away for too long to come back."""
        now, broken, closed = time.monotonic(), self.broken, self.closed  # another thread may change them
        if not self.connected or broken is None:
            return False
        return now - broken > OUTAGE_SECONDS or (closed is not None and now - closed > DIED_SECONDS)

    @property
    def may_read(self) -> bool:
        """Returns whether a node that was connected may still receive messages, as far as is known."""
        return self.connected and self.closed is None and not self.is_dead


class _Kept(NamedTuple):
    node: int
    data: bytes
    arrived: float


class NodeChannel:
    """The way of node `node` to the others: node 0 listens at `own`, each other one calls it alone.

    It has a thread, and node 0 a port, until `close`. `problem` says why node 0 does not listen, None if it
    does.

    Raises:
        RuntimeError: the limit of threads.
    """

    def __init__(self, token: str, job: str, node: int, nodes: int, own: Address, inbox: SignalInbox) -> None:
        self.node = node
        self.others = frozenset(range(1, nodes) if node == 0 else (0,))
        self._key = protocol.key_of(token, job)
        self._inbox = inbox
        self._kept: deque[_Kept] = deque()
        self._bytes: Counter[int] = Counter()  # kept of each node
        self._all_bytes, self._most_bytes = 0, max(MOST_KEPT_BYTES, nodes * MOST_KEPT_OF_EACH)
        self._links: dict[int, _Link] = {}
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._coming = 0  # what the thread has been asked to do, and has not begun yet
        self._lock = threading.Lock()
        self._listener, self.problem = listener(own) if node == 0 else (None, None)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # nothing of it concerns the training
        self._thread = threading.Thread(target=self._run, name="channel", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._end()
            raise

    @property
    def connected(self) -> set[int]:
        """The nodes that were connected at least once."""
        return {node for node, link in self._links.items() if link.connected}

    @property
    def unreached(self) -> set[int]:
        """The nodes without a connection, and not since a moment ago."""
        limit = time.monotonic() - LOST_SECONDS
        return {node for node, link in self._links.items() if link.broken is not None and link.broken < limit}

    @property
    def away(self) -> set[int]:
        """The nodes that were connected, and are not at this moment."""
        return {node for node, link in self._links.items() if link.connected and link.broken is not None}

    @property
    def dead(self) -> set[int]:
        """The nodes whose process has died, or that are away for longer than an outage of the network."""
        return {node for node, link in self._links.items() if link.is_dead}

    def meet(self, first: Address) -> None:
        """Where node 0 listens: another node calls it from now on, and sends what was told before."""

        def call() -> None:
            link = self._links[0]
            if link.task is not None:
                link.task.cancel()
            link.task = self._loop.create_task(self._calling(first, link))

        if self.node:
            self._soon_busy(call)

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to node 0, or from there to all others, in the background."""
        message = _Told(kind, time.monotonic(), protocol.encoded(body))

        def send() -> None:
            for link in self._links.values():
                link.waiting.append(message)
                link.more.set()

        self._soon_busy(send)

    def heard(self) -> Iterator[PeerMessage]:
        """What has come since the last call, read one after the other."""
        while True:
            with self._lock:
                if not self._kept:
                    return
                node, data, arrived = self._kept.popleft()
                self._count(node, -len(data))
            message = protocol.unpacked(data)
            if message is not None:
                kind, late, body = message
                yield PeerMessage(node, kind, body, arrived - late)

    def flush(self, seconds: float) -> bool:
        """Waits until all nodes that have not gone have what was told; False if that took too long."""
        until = time.monotonic() + seconds
        while self._coming or any(
            link.waiting for link in self._links.values() if not link.connected or link.broken is None
        ):
            if time.monotonic() >= until:
                return False
            time.sleep(FLUSH_PAUSE)
        return True

    def settle(self) -> bool:
        """Waits until all nodes that may still read have what was told.

        It waits through an outage of the network; False if it took longer than one.
        """
        until = time.monotonic() + OUTAGE_SECONDS
        while self._coming or any(link.waiting and link.may_read for link in self._links.values()):
            if time.monotonic() >= until:
                return False
            time.sleep(FLUSH_PAUSE)
        return True

    def close(self) -> None:
        """Ends the thread and frees the port; what was not sent yet is dropped."""
        self._soon(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _soon_busy(self, work: Callable[[], None]) -> None:
        """Does the work in the thread; `flush` waits for it."""
        with self._lock:
            self._coming += 1

        def done() -> None:
            work()
            with self._lock:
                self._coming -= 1

        self._soon(done)

    def _soon(self, work: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._links = {node: _Link() for node in self.others}
        if self._listener is not None:
            self._loop.create_task(self._accept(self._listener))
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._end()

    def _end(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._loop.close()

    async def _accept(self, listener: socket.socket) -> None:
        accepted = 0
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except OSError:  # no descriptor is free
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            while len(self._strangers) >= MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._serve(connection))
            self._strangers[task] = None
            task.add_done_callback(lambda done: self._strangers.pop(done, None))
            accepted += 1
            if accepted % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(ACCEPT_PAUSE)

    async def _serve(self, connection: socket.socket) -> None:
        """Answers who has called, and serves it if it is a node of this job."""
        with contextlib.suppress(*BROKEN):
            async with _opened(asyncio.open_connection(sock=connection)) as streams:
                session = await asyncio.wait_for(self._greeted(*streams), GREETING_SECONDS)
                link = self._links[session.node]
                if link.task is not None:
                    link.task.cancel()  # the node has called again before its last connection was seen to end
                link.task = asyncio.current_task()
                if link.task is not None:
                    self._strangers.pop(link.task, None)
                await self._connected(link, _Wire(session, "server", "client", *streams), session.node)

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Session:
        nonce = os.urandom(protocol.NONCE)
        writer.write(nonce)
        words = await reader.readexactly(protocol.HELLO.size + protocol.PROOF)
        session = protocol.read_hello(words, self._key, nonce)
        if session is None or session.node not in self.others:
            raise Dropped
        writer.write(session.proof("server", 0))
        return session

    async def _calling(self, first: Address, link: _Link) -> None:
        """Calls node 0, again whenever the connection ends."""
        pause = FIRST_RETRY
        while True:
            try:
                calling = asyncio.wait_for(asyncio.open_connection(*first), CONNECT_SECONDS)
                async with _opened(calling) as streams:
                    session = await asyncio.wait_for(self._greeting(*streams), GREETING_SECONDS)
                    pause = FIRST_RETRY
                    await self._connected(link, _Wire(session, "client", "server", *streams), 0)
            except ConnectionRefusedError:  # the machine is there, and no process of it listens
                self._note_closed(link)
            except BROKEN:
                pass
            await asyncio.sleep(pause)
            pause = min(LONGEST_RETRY, 2 * pause)

    async def _greeting(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Session:
        nonce = await reader.readexactly(protocol.NONCE)
        session = Session(self._key, self.node, nonce, os.urandom(protocol.NONCE))
        writer.write(protocol.hello(session))
        if not session.is_proved(await reader.readexactly(protocol.PROOF), "server", 0):
            raise Dropped
        return session

    async def _connected(self, link: _Link, wire: _Wire, node: int) -> None:
        """Sends what waits, and keeps what comes, until the connection ends."""
        link.connected, link.broken, link.closed = True, None, None
        sending = self._loop.create_task(self._send(link, wire))
        task, closed = link.task, False
        try:
            while True:
                data = await wire.read()
                if not data:
                    link.taken.set()
                    continue
                self._keep(_Kept(node, data, time.monotonic()))
                wire.write(b"")
                await _not_too_many(link.times)
        except (EOFError, ConnectionError):
            closed = True
            raise
        finally:
            sending.cancel()
            if link.task is task:  # there is no newer connection
                link.broken = time.monotonic()
                self._loop.call_later(OUTAGE_SECONDS + FLUSH_PAUSE, self._inbox.wake)
                if closed:
                    self._note_closed(link)
            self._inbox.wake()

    def _note_closed(self, link: _Link) -> None:
        """Takes note that the other machine has closed the connection, or has refused one."""
        if link.closed is None:
            link.closed = time.monotonic()
            self._loop.call_later(DIED_SECONDS + FLUSH_PAUSE, self._inbox.wake)

    async def _send(self, link: _Link, wire: _Wire) -> None:
        while True:
            link.more.clear()
            if not link.waiting:
                await link.more.wait()
                continue
            message = link.waiting[0]
            data = protocol.packed(message.kind, time.monotonic() - message.when, message.body)
            if len(data) <= protocol.MOST_BYTES:
                link.taken.clear()
                wire.write(data)
                await link.taken.wait()
            if link.waiting and link.waiting[0] is message:
                link.waiting.popleft()

    def _keep(self, new: _Kept) -> None:
        """Keeps a message; what is too much is taken from the node that has sent it."""
        with self._lock:
            self._kept.append(new)
            self._count(new.node, len(new.data))
            while self._bytes[new.node] > MOST_OF_ONE_NODE or self._all_bytes > self._most_bytes:
                oldest = next(kept for kept in self._kept if kept.node == new.node)
                self._kept.remove(oldest)
                self._count(new.node, -len(oldest.data))
        self._inbox.wake()

    def _count(self, node: int, more: int) -> None:
        self._bytes[node] += more
        self._all_bytes += more


async def _not_too_many(times: deque[float]) -> None:
    """Waits if a node tells too much, given when it has told something: it is read later then."""
    times.append(time.monotonic())
    if len(times) > MOST_OF_A_NODE:
        await asyncio.sleep(times.popleft() + IN_SECONDS - time.monotonic())


class Dropped(Exception):
    """This connection is not worth an answer."""


BROKEN = (Dropped, OSError, EOFError, asyncio.TimeoutError)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def _opened(opening: Awaitable[Streams]) -> AsyncIterator[Streams]:
    """A connection that ends with the block, or when the other machine is gone."""
    reader, writer = await opening
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * DEAD_SECONDS)
    try:
        yield reader, writer
    finally:
        writer.close()


class _Wire:
    """A connection on which both sides have greeted, as messages with their proofs."""

    def __init__(
        self,
        session: Session,
        own: str,
        other: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._session, self._own, self._other = session, own, other
        self._reader, self._writer = reader, writer
        self._read = self._written = 0

    async def read(self) -> bytes:
        """The next message; raises `Dropped` for bytes that are not one."""
        (length,) = protocol.LENGTH.unpack(await self._reader.readexactly(protocol.LENGTH.size))
        if length > protocol.MOST_BYTES:
            raise Dropped
        words = await self._reader.readexactly(length + protocol.PROOF)
        self._read += 1
        if not self._session.is_proved(words[length:], self._other, self._read, words[:length]):
            raise Dropped
        return words[:length]

    def write(self, data: bytes) -> None:
        """Sends a message."""
        self._written += 1
        proof = self._session.proof(self._own, self._written, data)
        self._writer.write(protocol.LENGTH.pack(len(data)) + data + proof)


def listener(own: Address) -> tuple[socket.socket | None, str | None]:
    """A socket at this node's own address, or at all if this machine does not have it; or why not."""
    problem = ""
    for family, address in _places(own):
        try:
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            problem = f"{error.strerror or error}: port {own.port}"
            continue
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind(address)
            listening.listen(WAITING)
            listening.setblocking(False)
            return listening, None
        except OSError as error:
            listening.close()
            problem = f"{error.strerror or error}: port {own.port}"
            if error.errno != errno.EADDRNOTAVAIL:
                break
    return None, problem


def _places(own: Address) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Where node 0 may listen, with the family: at its own address, then at all addresses of the machine.

    A socket for all addresses of IPv6 takes those of IPv4 as well. No name is looked up.
    """
    if own.host:
        with contextlib.suppress(socket.gaierror):
            flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
            for entry in socket.getaddrinfo(own.host, own.port, type=socket.SOCK_STREAM, flags=flags):
                yield entry[0], entry[4]
    yield socket.AF_INET6, ("::", own.port)
    yield socket.AF_INET, ("", own.port)
