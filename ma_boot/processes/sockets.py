"""Traffic of TCP sockets, from the kernel (sock_diag(7)): /proc/PID/io does not count `recv` and `send`."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
# INET_DIAG_INFO: a `tcp_info`.
_INFO = 2
_ALL_STATES = 0xFFFFFFFF
# nlmsghdr: length, type, flags, sequence, port (linux/netlink.h).
_HEADER = struct.Struct("=IHHII")
# inet_diag_req_v2: family, protocol, extensions, states (linux/inet_diag.h).
_REQUEST = struct.Struct("=BBBxI48x")
# inet_diag_msg, of which only the inode is read.
_MESSAGE = struct.Struct("=68xI")
# nlattr: length, type.
_ATTRIBUTE = struct.Struct("=HH")
# tcp_info: tcpi_bytes_acked and tcpi_bytes_received (linux/tcp.h).
_PAYLOAD = struct.Struct("=120xQQ")
# Bytes of one answer of the kernel.
_ANSWER = 1 << 16
# Seconds; the kernel answers at once or never.
_SECONDS = 0.5


def socket_bytes() -> dict[int, int]:
    """Returns the bytes that each TCP socket of this container has sent and received, by inode.

    Keepalive probes and retransmissions do not count. Empty if the kernel does not support it.
    """
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
    """Yields the kernel's messages, one per socket, until its end-of-dump or error message."""
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
    """Returns the inodes of a process's sockets; empty if it has ended or belongs to another user."""
    inodes: list[int] = []
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{descriptor}").partition(":[")
                inodes += [int(inode[:-1])] if kind == "socket" else []
    return inodes


def listening_sockets(port: int) -> set[int]:
    """Returns the inodes of the TCP sockets of this container that listen on a port.

    Of /proc/net/tcp: local address `IP:PORT` in hex is the second field, the state the fourth (0A: LISTEN),
    the inode the tenth.
    """
    inodes: set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as rows:
            fields = (row.split() for row in rows)
            inodes |= {int(row[9]) for row in fields if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    return inodes
