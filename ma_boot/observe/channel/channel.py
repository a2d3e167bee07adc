"""The channel of a node: it listens for the other nodes, and tells them what happens, in its own thread.

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
from collections import deque
from typing import (
    Any,
    Awaitable,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ma_boot.observe import PeerMessage
from ma_boot.observe.channel import protocol
from ma_boot.observe.channel.protocol import Address, Handshake
from ma_boot.processes import SignalInbox

EXCHANGE_SECONDS = 2.0  # for a whole connection, from the first byte to the last
CONNECT_SECONDS = 1.5
SEND_SECONDS = 8.0  # for a message to reach a node, with all attempts
RETRY_SECONDS = 0.3
MOST_STRANGERS = 64  # connections that have proved nothing yet: a further one ends the oldest
ACCEPTED_AT_ONCE, ACCEPT_PAUSE = 32, 0.05  # so a flood costs little of a core
MOST_WAITING = 16  # messages to one node
MOST_KEPT = 1024  # messages that nobody has asked for
MOST_OF_A_NODE, IN_SECONDS = 20, 10.0  # messages
CLOSE_SECONDS = 0.2


class _Told(NamedTuple):
    kind: str
    when: float
    body: Mapping[str, Any]


class NodeChannel:
    """Implements `Peers` for node `node` of a job; it has a thread and a port until `close`.

    `problem` says why it does not listen, None if it does: it tells others all the same.

    Raises:
        RuntimeError: the limit of threads.
    """

    def __init__(self, token: str, job: str, node: int, nodes: int, own: Address, inbox: SignalInbox) -> None:
        self.node = node
        self.others = frozenset(range(nodes)) - {node}
        self.unreached: Set[int] = set()
        self.met: Set[int] = set()  # those that were reached, or heard, at least once
        self._keys = {number: protocol.key_of(token, job, number) for number in range(nodes)}
        self._inbox = inbox
        self._addresses: Dict[int, Address] = {}
        self._kept: Deque[PeerMessage] = deque(maxlen=MOST_KEPT)
        self._waiting: Dict[int, Deque[_Told]] = {}
        self._senders: Dict[int, asyncio.Task[None]] = {}
        self._strangers: Dict[asyncio.Task[None], None] = {}
        self._times: Dict[int, Deque[float]] = {}
        self._idle = threading.Event()
        self._idle.set()
        self._coming = 0  # what the thread has been asked to do, and has not begun yet
        self._counting = threading.Lock()
        self._listener, self.problem = listener(own)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # nothing of it concerns the training
        self._thread = threading.Thread(target=self._run, name="channel", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._end()
            raise

    def meet(self, addresses: Mapping[int, Address]) -> None:
        """Where the other nodes listen; what was told before is sent now."""

        def met() -> None:
            self._addresses.update(addresses)
            for node in list(self._waiting):
                self._send_to(node)

        self._soon_busy(met)

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to all other nodes, in the background."""
        told = _Told(kind, time.monotonic(), body)

        def send() -> None:
            for node in self.others:
                self._waiting.setdefault(node, deque(maxlen=MOST_WAITING)).append(told)
                self._send_to(node)

        self._soon_busy(send)

    def heard(self) -> List[PeerMessage]:
        """What has come since the last call."""
        found: List[PeerMessage] = []
        with contextlib.suppress(IndexError):
            while True:
                found.append(self._kept.popleft())
        return found

    def flush(self, seconds: float) -> bool:
        """Waits until all that was told has reached the others, or could not; False if that took too long."""
        return self._idle.wait(seconds)

    def close(self) -> None:
        """Ends the thread and frees the port; what was not sent yet is dropped."""
        self._soon(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _soon_busy(self, work: Callable[[], None]) -> None:
        """Does the work in the thread; until it is done, and what it begins, the channel is not idle."""
        with self._counting:
            self._coming += 1
            self._idle.clear()

        def done() -> None:
            work()
            with self._counting:
                self._coming -= 1
            self._look_idle()

        self._soon(done)

    def _soon(self, work: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
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
            connection.setblocking(False)
            task = self._loop.create_task(self._serve(connection))
            self._strangers[task] = None
            accepted += 1
            if accepted % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(ACCEPT_PAUSE)

    async def _serve(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        try:
            await asyncio.wait_for(self._taken(connection, task), EXCHANGE_SECONDS)
        except (Dropped, OSError, asyncio.TimeoutError):
            pass
        finally:
            connection.close()
            if task is not None:
                self._strangers.pop(task, None)

    async def _taken(self, connection: socket.socket, task: Optional[asyncio.Task[None]]) -> None:
        wire = Wire(self._loop, connection)
        begun = protocol.read_hello(await wire.read(protocol.HELLO.size))
        if begun is None or begun[0] not in self.others:
            raise Dropped
        exchange = Handshake(begun[0], self.node, begun[1], os.urandom(protocol.NONCE))
        theirs, ours = self._keys[exchange.client], self._keys[self.node]
        await wire.write(exchange.of_server)
        if not exchange.is_proved(await wire.read(protocol.PROOF), theirs, "hello"):
            raise Dropped
        if task is not None:
            self._strangers.pop(task, None)
        self._count(exchange.client)
        await wire.write(exchange.proof(ours, "welcome"))
        (length,) = protocol.LENGTH.unpack(await wire.read(protocol.LENGTH.size))
        if length > protocol.MOST_BYTES:
            raise Dropped
        data = await wire.read(length)
        if not exchange.is_proved(await wire.read(protocol.PROOF), theirs, "message", data):
            raise Dropped
        message = protocol.unpacked(data)
        if message is not None:
            kind, late, body = message
            self._kept.append(PeerMessage(exchange.client, kind, body, time.monotonic() - late))
            self.unreached.discard(exchange.client)
            self.met.add(exchange.client)
            self._inbox.wake()
        await wire.write(exchange.proof(ours, "taken"))

    def _count(self, node: int) -> None:
        """Raises `Dropped` if a node tells too much."""
        times = self._times.setdefault(node, deque())
        now = time.monotonic()
        while times and times[0] < now - IN_SECONDS:
            times.popleft()
        if len(times) >= MOST_OF_A_NODE:
            raise Dropped
        times.append(now)

    def _send_to(self, node: int) -> None:
        if node in self._addresses and node not in self._senders and self._waiting.get(node):
            self._senders[node] = self._loop.create_task(self._sending(node))

    async def _sending(self, node: int) -> None:
        waiting = self._waiting[node]
        try:
            while waiting:
                told = waiting[0]
                if await self._sent(node, told):
                    self.unreached.discard(node)
                    self.met.add(node)
                elif time.monotonic() < told.when + SEND_SECONDS:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                else:
                    self._lost(node)
                if waiting and waiting[0] is told:
                    waiting.popleft()
        finally:
            self._senders.pop(node, None)
            self._look_idle()

    def _lost(self, node: int) -> None:
        """Nobody listens there, or nobody answers: who only is slow is not lost."""
        self.unreached.add(node)
        self._inbox.wake()

    def _look_idle(self) -> None:
        with self._counting:
            if not self._coming and not any(self._waiting.get(node) for node in self._addresses):
                self._idle.set()

    async def _sent(self, node: int, told: _Told) -> bool:
        try:
            return await asyncio.wait_for(self._delivered(node, told), EXCHANGE_SECONDS)
        except (Dropped, OSError, asyncio.TimeoutError):
            return False

    async def _delivered(self, node: int, told: _Told) -> bool:
        found = await connected(self._loop, self._addresses[node], CONNECT_SECONDS)
        if found is None:
            self._lost(node)
            raise Dropped
        with found as connection:
            wire = Wire(self._loop, connection)
            nonce = os.urandom(protocol.NONCE)
            await wire.write(protocol.hello(self.node, nonce))
            exchange = Handshake(self.node, node, nonce, await wire.read(protocol.NONCE))
            ours, theirs = self._keys[self.node], self._keys[node]
            await wire.write(exchange.proof(ours, "hello"))
            if not exchange.is_proved(await wire.read(protocol.PROOF), theirs, "welcome"):
                raise Dropped
            data = protocol.packed(told.kind, time.monotonic() - told.when, told.body)
            proof = exchange.proof(ours, "message", data)
            await wire.write(protocol.LENGTH.pack(len(data)) + data + proof)
            return exchange.is_proved(await wire.read(protocol.PROOF), theirs, "taken")


WAITING = 128  # connections that the kernel keeps until they are accepted


class Dropped(Exception):
    """This connection is not worth an answer."""


def listener(own: Address) -> Tuple[Optional[socket.socket], Optional[str]]:
    """A socket at this node's own address, or at all if it is none of this machine; or why there is none."""
    problem = ""
    for family, address in _places(own):
        try:
            found = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            problem = f"{error.strerror or error}: port {own.port}"
            continue
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            found.bind(address)
            found.listen(WAITING)
            found.setblocking(False)
            return found, None
        except OSError as error:
            found.close()
            problem = f"{error.strerror or error}: port {own.port}"
            if error.errno != errno.EADDRNOTAVAIL:
                break
    return None, problem


def _places(own: Address) -> Iterator[Tuple[int, Tuple[Any, ...]]]:
    """Where a node may listen, with the family: at its own address, then at all addresses of the machine.

    A socket for all addresses of IPv6 takes those of IPv4 as well. No name is looked up.
    """
    if own.host:
        with contextlib.suppress(socket.gaierror):
            flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
            for found in socket.getaddrinfo(own.host, own.port, type=socket.SOCK_STREAM, flags=flags):
                yield found[0], found[4]
    yield socket.AF_INET6, ("::", own.port)
    yield socket.AF_INET, ("", own.port)


async def connected(loop: asyncio.AbstractEventLoop, to: Address, seconds: float) -> Optional[socket.socket]:
    """A connection to the first address of a node that answers within so many seconds; None if none does."""
    until = time.monotonic() + seconds
    try:  # at once: the threads that look up names may all be waiting for a name server
        places = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        places = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    for family, kind, number, _, address in places:
        connection = socket.socket(family, kind, number)
        try:
            connection.setblocking(False)
            left = max(0.0, until - time.monotonic())
            await asyncio.wait_for(loop.sock_connect(connection, address), left)
            return connection
        except (OSError, asyncio.TimeoutError):
            connection.close()
        except BaseException:  # it is cancelled
            connection.close()
            raise
    return None


class Wire(NamedTuple):
    """A connection, read by the number of bytes."""

    loop: asyncio.AbstractEventLoop
    connection: socket.socket

    async def read(self, size: int) -> bytes:
        """So many bytes; raises `Dropped` if the other side has closed before."""
        found = bytearray()
        while len(found) < size:
            piece = await self.loop.sock_recv(self.connection, size - len(found))
            if not piece:
                raise Dropped
            found += piece
        return bytes(found)

    def write(self, data: bytes) -> Awaitable[None]:
        """Sends all of it."""
        return self.loop.sock_sendall(self.connection, data)
