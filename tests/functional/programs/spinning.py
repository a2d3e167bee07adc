"""A rank that stops making progress, or waits for one that has: `spinning.py WAY,WAY,... [SECONDS]`.

The ways are those of the ranks, in their order. All print three steps first.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import time
import zlib
from typing import Any

IS_MPI = "OMPI_COMM_WORLD_RANK" in os.environ
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK_ID") or os.environ["RANK"])
WAY = sys.argv[1].split(",")[RANK]
LOCK = threading.Lock()


def loops() -> None:
    """It never leaves a loop of one line: on two lines, two ranks in it would be at two places."""
    while True: pass  # fmt: skip  # noqa: E701


def polls_lock() -> None:
    """It polls a lock that is never free."""
    LOCK.acquire()
    while not LOCK.acquire(blocking=False):
        pass


def waits_for_lock() -> None:
    """It sleeps until a lock is free that never is."""
    LOCK.acquire()
    LOCK.acquire()


def prints() -> None:
    """It prints the same line for ever."""
    while True:
        print("waiting for data", flush=True)
        time.sleep(0.2)


def compress(block: bytes) -> bytes:
    """A part of the evaluation."""
    return zlib.compress(block * 40_000, 9)


def digest(block: bytes) -> bytes:
    """Another part of it."""
    return hashlib.pbkdf2_hmac("sha256", block, b"salt", 400_000)


def evaluates() -> None:
    """It computes without a word."""
    end = time.monotonic() + float(sys.argv[2])
    block = os.urandom(32)
    while time.monotonic() < end:
        block = digest(compress(block))


def writes() -> None:
    """It writes a checkpoint without a word."""
    end = time.monotonic() + float(sys.argv[2])
    with open(f"checkpoint.{RANK}", "wb", buffering=0) as file:
        while time.monotonic() < end:
            file.seek(0)
            file.write(bytes(1 << 18))
            time.sleep(0.05)


def reduces() -> None:
    """It sleeps in a collective that the others never enter."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(4))


def polls_work() -> None:
    """It polls a collective that the others never enter."""
    import torch
    import torch.distributed as dist

    work = dist.all_reduce(torch.ones(4), async_op=True)
    while not work.is_completed():
        pass


def mpi() -> tuple[Any, Any, Any]:
    """Open MPI's library, its communicator of all ranks, and its type of an int."""
    library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    communicator = ctypes.byref(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world"))
    return library, communicator, ctypes.byref(ctypes.c_char.in_dll(library, "ompi_mpi_int"))


def enters_barrier() -> None:
    """It polls in a barrier that the others never enter."""
    library, communicator, _ = mpi()
    library.MPI_Barrier(communicator)


def receives() -> None:
    """It polls for a message that no rank sends."""
    library, communicator, integer = mpi()
    any_source, tag, no_status = -1, 1, None
    library.MPI_Recv(ctypes.byref(ctypes.c_int()), 1, integer, any_source, tag, communicator, no_status)


def waits_for_request() -> None:
    """It polls until a barrier ends that the others never enter."""
    library, communicator, _ = mpi()
    request = ctypes.c_void_p()
    library.MPI_Ibarrier(communicator, ctypes.byref(request))
    library.MPI_Wait(ctypes.byref(request), None)


if __name__ == "__main__":
    if IS_MPI:
        mpi()[0].MPI_Init(None, None)
        enters_barrier()
    if "MASTER_ADDR" in os.environ:
        import torch.distributed

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        torch.distributed.barrier()
    for step in range(1, 4):
        print(f"step {step} loss: {1 / step:.3f}", flush=True)
        time.sleep(0.3)
    globals()[WAY]()
