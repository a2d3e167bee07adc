"""Runs work in one process of a node only, or in one at a time.

The lock is not a file but the name of an abstract socket, which the kernel releases when its owner ends,
however it ends.
"""

from __future__ import annotations

import hashlib
import socket
from typing import Callable

DONE = b"done"


def once_per_node(name: str, work: Callable[[], None]) -> None:
    """Runs the work in one process of the node; the others return when it is done.

    If it fails or the process dies, one of the waiting processes runs it. An exception is raised only in the
    process that ran the work.
    """
    while True:
        with _socket() as own:
            if _is_mine(own, name):
                _work_as_leader(own, work)
                return
        if _was_done(name):
            return


def in_turn(name: str, work: Callable[[], None]) -> None:
    """Runs the work in every process that calls this, in one at a time."""
    while True:
        with _socket() as own:
            if _is_mine(own, name):
                work()
                return
        _was_done(name)


def _work_as_leader(own: socket.socket, work: Callable[[], None]) -> None:
    """Runs the work and notifies those who wait; a name released without notification means failure."""
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
    """Waits for the process that holds the name; returns whether it has done the work."""
    with _socket() as peer:
        try:
            peer.connect(_address(name))
            return peer.recv(len(DONE)) == DONE
        except OSError:  # it has ended
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
