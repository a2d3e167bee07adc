"""Adds up over all ranks of MindSpore three times, before one rank hangs: `ms_hang.py WAY RANK [silent]`.

The others wait for it in the next AllReduce. Without `silent`, each rank prints its steps.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import numpy
from mindspore import Tensor, ops

from ma_boot.training import init_env


def sleeps() -> None:
    """It sleeps for longer than any test."""
    time.sleep(600)


def waits() -> None:
    """It waits for a lock that is never free."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def loops() -> None:
    """It uses CPU and never ends."""
    while True: pass  # fmt: skip  # noqa: E701


def stops() -> None:
    """It is stopped as if by a debugger."""
    os.kill(os.getpid(), signal.SIGSTOP)


cfg = SimpleNamespace(seed=1, device_target="CPU", context_mode="pynative")
init_env(cfg)
all_reduce = ops.AllReduce()
ones = Tensor(numpy.ones(1, numpy.float32))
for step in range(1, 4):
    total = float(all_reduce(ones).asnumpy()[0])
    if "silent" not in sys.argv:
        print(f"step {step} loss: {total / step:.3f}", flush=True)
if cfg.rank_id == int(sys.argv[2]):
    globals()[sys.argv[1]]()
all_reduce(ones).asnumpy()
