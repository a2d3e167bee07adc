"""What TCP sockets have moved, by the kernel (sock_diag(7)): /proc/PID/io knows neither `recv` nor `send`."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_INFO = 2  # INET_DIAG_INFO: a `tcp_info`
_ALL_STATES = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # length and type, flags, sequence, port
_REQUEST = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, extensions, states
_MESSAGE = struct.Struct("=68xI")  # inet_diag_msg, of which the inode
_ATTRIBUTE = struct.Struct("=HH")  # length and type
_PAYLOAD = struct.Struct("=120xQQ")  # of a tcp_info: the bytes acknowledged, and those received
_ANSWER = 1 << 16
_SECONDS = 0.5


def socket_bytes() -> dict[int, int]:
    """The bytes that each TCP socket of this container has moved either way, by inode; neither keepalives nor
    repeats count. Empty where the kernel does not tell."""
    moved: dict[int, int] = {}
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diag:
        diag.settimeout(_SECONDS)
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ALL_STATES)
            diag.send(_HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _DUMP, 0, 0) + wanted)
            for message in _messages(diag):
                (inode,) = _MESSAGE.unpack_from(message)
                info = _attributes(message[_MESSAGE.size :]).get(_INFO, b"")
                if len(info) >= _PAYLOAD.size:  # Linux 4.1 and later
                    moved[inode] = sum(_PAYLOAD.unpack_from(info))
    return moved


def _messages(diag: socket.socket) -> Iterator[bytes]:
    """The sockets that the kernel tells, up to its word that these are all, or an error."""
    while True:
        answer = diag.recv(_ANSWER)
        while len(answer) >= _HEADER.size:
            length, kind, *_ = _HEADER.unpack_from(answer)
            if kind != _BY_FAMILY or length < _HEADER.size:
                return
            yield answer[_HEADER.size : length]
            answer = answer[_aligned(length) :]


def _attributes(data: bytes) -> dict[int, bytes]:
    attributes: dict[int, bytes] = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        attributes[kind] = data[_ATTRIBUTE.size : length]
        data = data[max(_ATTRIBUTE.size, _aligned(length)) :]
    return attributes


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def sockets_of(pid: int) -> list[int]:
    """The inodes of a process's sockets; none where that is another user's, or gone."""
    inodes: list[int] = []
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{descriptor}").partition(":[")
                inodes += [int(inode[:-1])] if kind == "socket" else []
    return inodes
