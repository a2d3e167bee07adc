"""Makes a running process end with an exit code of our choice, whatever program it is.

It stops the process as a debugger does and has it call exit_group, by an instruction that the kernel put into
every process (the vDSO). Who may: root, and the process's own ancestors of the same user (Yama's level 1).
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import time
from typing import NamedTuple

_ATTACH, _DETACH, _GETREGSET, _SETREGSET = 16, 17, 0x4204, 0x4205  # linux/ptrace.h
_NT_PRSTATUS = 1  # elf.h: the general registers
_WALL = 0x40000000
_START_SECONDS, _LOOK_SECONDS = 5.0, 0.001  # a process that just starts has its vDSO a moment later


class _Machine(NamedTuple):
    """An architecture: its system call instruction, exit_group's number, and the registers (8 bytes each)."""

    instruction: bytes
    number: int
    registers: int
    call: int
    code: int
    at: int


_MACHINES = {
    "x86_64": _Machine(b"\x0f\x05", 231, 27, call=10, code=14, at=16),  # rax, rdi, rip
    "aarch64": _Machine(b"\x01\x00\x00\xd4", 94, 34, call=8, code=0, at=32),  # x8, x0, pc
}
_ORIG_RAX = 15  # of x86_64; -1 says that no system call is to be restarted


def force_exit(pid: int, code: int) -> None:
    """Ends the process with this code (0 to 255), from inside, at once.

    Raises `OSError`: it is gone, may not be touched, or is of another architecture.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(f"exit codes cannot be forced on {platform.machine()}, only on {', '.join(_MACHINES)}")
    instruction = _instruction(pid, machine.instruction)
    libc = ctypes.CDLL(None, use_errno=True)
    _ptrace(libc, _ATTACH, pid, 0, None)
    try:
        os.waitid(os.P_PID, pid, os.WSTOPPED | _WALL)
        size = machine.registers * 8
        registers = ctypes.create_string_buffer(size)
        area = _Area(ctypes.addressof(registers), size)
        _ptrace(libc, _GETREGSET, pid, _NT_PRSTATUS, ctypes.byref(area))
        values = list(struct.unpack(f"{machine.registers}Q", registers.raw))
        values[machine.call], values[machine.code], values[machine.at] = machine.number, code, instruction
        if platform.machine() == "x86_64":
            values[_ORIG_RAX] = (1 << 64) - 1
        registers.raw = struct.pack(f"{machine.registers}Q", *values)
        _ptrace(libc, _SETREGSET, pid, _NT_PRSTATUS, ctypes.byref(area))
    finally:
        _ptrace(libc, _DETACH, pid, 0, None)


class _Area(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _ptrace(libc: ctypes.CDLL, request: int, pid: int, address: int, data: object) -> None:
    result = libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), data)
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _instruction(pid: int, wanted: bytes) -> int:
    """The address of a system call instruction in the process's vDSO."""
    until = time.monotonic() + _START_SECONDS
    while True:
        with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
            match = re.search(r"^([0-9a-f]+)-([0-9a-f]+) r-x.*\[vdso\]$", maps.read(), re.MULTILINE)
        if match is not None:
            break
        if time.monotonic() > until:
            raise OSError(f"process {pid} has no vDSO, by which its exit could be forced")
        time.sleep(_LOOK_SECONDS)
    start, end = int(match.group(1), 16), int(match.group(2), 16)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        found = memory.read(end - start).find(wanted)
    if found < 0:
        raise OSError(f"the vDSO of process {pid} has no system call")
    return start + found
