"""`unanswered_files.py DIRECTORY COMMAND...`: runs the command; whoever looks into the directory is stuck until it ends.

The directory is a file system (FUSE) whose server reads requests and never answers them: a process that waits for it is in
uninterruptible sleep and survives SIGKILL, as with a network file system whose server has gone. Needs a mount namespace of its
own, as root in it (unshare).
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys

_NOSUID_NODEV = 6
_REQUEST = struct.Struct("=IIQQIIII")  # linux/fuse.h: fuse_in_header
_HEADER = struct.Struct("=IiQ")  # fuse_out_header
_INIT = struct.Struct("=IIIIHHIIHHI28x")  # fuse_init_out
_OPCODE_INIT = 26


def serve(device: int, job: int) -> None:
    """Answers the first request, which a mount needs, and reads the others until the job has ended."""
    poll = select.poll()
    poll.register(device, select.POLLIN)
    poll.register(job, 0)
    while job not in dict(poll.poll()):
        _, opcode, unique, *_ = _REQUEST.unpack_from(os.read(device, 1 << 20))
        if opcode == _OPCODE_INIT:
            answer = _INIT.pack(7, 31, 1 << 12, 0, 16, 8, 1 << 12, 1, 1, 0, 0)
            os.write(device, _HEADER.pack(_HEADER.size + len(answer), 0, unique) + answer)


def main(directory: str, *command: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"unanswered", directory.encode(), b"fuse", _NOSUID_NODEV, options.encode()) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    job, end = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:  # no child of the job
            os.setsid()
            os.close(end)
            for descriptor in range(3):
                os.close(descriptor)
            serve(device, job)
        os._exit(0)
    os.wait()
    os.set_inheritable(end, True)
    os.close(device)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
