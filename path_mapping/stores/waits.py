"""The waits of a task: a coroutine that asks its loop for these, and does all else without blocking.

Not asyncio, whose import takes as long as the start of a worker, and which makes objects for each wait. A
task runs in `workers.loop` beside many others, or alone by `stores.blocking`. It ends early by its `close`,
so its `finally` blocks must not wait.
"""

from __future__ import annotations

import select
import socket
import types
from collections.abc import Generator
from typing import Any, Callable, NamedTuple, TypeVar, Union

# As poll() and epoll have them.
READ, WRITE = select.POLLIN, select.POLLOUT

Result = TypeVar("Result")


class NonBlockingSocket:
    """A socket that does not block; `watched`: an epoll reports its events."""

    __slots__ = ("socket", "watched")

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self.socket = raw
        self.watched = False


class Ready(NamedTuple):
    """Wait for one of the events of a line: the result are those that came, 0 after so many seconds."""

    line: NonBlockingSocket
    events: int
    seconds: float


class Pause(NamedTuple):
    """Wait for some seconds."""

    seconds: float


class Elsewhere(NamedTuple):
    """Run a function that blocks, in another thread if there are other tasks; `slow`: maybe for seconds."""

    work: Callable[[], Any]
    slow: bool


Wait = Union[Ready, Pause, Elsewhere]


@types.coroutine
def _waited(wait: Wait) -> Generator[Wait, Any, Any]:
    return (yield wait)


async def ready(line: NonBlockingSocket, events: int, seconds: float) -> int:
    """See `Ready`."""
    came: int = await _waited(Ready(line, events, seconds))
    return came


async def until_ready(line: NonBlockingSocket, events: int, seconds: float) -> None:
    """Waits for one of the events. Raises `TimeoutError` after so many seconds."""
    if not await ready(line, events, seconds):
        raise socket.timeout("timed out")


async def pause(seconds: float) -> None:
    """See `Pause`."""
    await _waited(Pause(seconds))


async def elsewhere(work: Callable[[], Result], slow: bool = False) -> Result:
    """See `Elsewhere`: returns its result, or raises its exception."""
    result: Result = await _waited(Elsewhere(work, slow))
    return result
