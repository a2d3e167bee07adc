"""For training code: one process of the node at a time, and what one has done the others need not do.

No lock files: the lock is a name among the kernel's abstract sockets, which is free the moment that its owner
ends, whatever it dies of.
"""

from __future__ import annotations

import hashlib
import socket
from typing import Callable

DONE = b"done"


def once_per_node(name: str, work: Callable[[], None]) -> None:
    """Does the work in one process of the node; the others wait for it, and return when it is done.

    When the process fails or dies at it, one of those that wait does it, so nobody waits for the dead. What
    the work raises is raised where it was done.
    """
    while True:
        with _socket() as own:
            if _is_mine(own, name):
                _work_as_leader(own, work)
                return
        if _was_done(name):
            return


def in_turn(name: str, work: Callable[[], None]) -> None:
    """Does the work in every process of the node that comes here, in one at a time."""
    while True:
        with _socket() as own:
            if _is_mine(own, name):
                work()
                return
        _was_done(name)


def _work_as_leader(own: socket.socket, work: Callable[[], None]) -> None:
    """Does it, and tells those who wait; a name that is let go without a word means that it failed."""
    work()
    own.setblocking(False)
    while True:
        try:
            follower, _ = own.accept()
        except BlockingIOError:
            return
        with follower:
            follower.sendall(DONE)


def _was_done(name: str) -> bool:
    """Waits for the end of the process that has the name; False where nobody, or a failed one, had it."""
    with _socket() as peer:
        try:
            peer.connect(_address(name))
            return peer.recv(len(DONE)) == DONE
        except OSError:  # it ended meanwhile
            return False


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_mine(own: socket.socket, name: str) -> bool:
    try:
        own.bind(_address(name))
    except OSError:
        return False
    own.listen(1024)
    return True


def _address(name: str) -> str:
    return "\0ma_boot-" + hashlib.sha256(name.encode()).hexdigest()
