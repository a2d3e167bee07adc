"""Adds up over all ranks of MindSpore three times, before one rank hangs: `ms_hang.py WAY RANK [silent] [graph]`.

The others wait for it in the next AllReduce. Without `silent`, each rank prints its steps; with `graph`, the
operations are those of a compiled graph.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import numpy
from mindspore import Tensor, nn, ops

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


class Sum(nn.Cell):  # type: ignore[misc]  # MindSpore has no types
    """The sum over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.all_reduce = ops.AllReduce()

    def construct(self, addend: Tensor) -> Tensor:
        return self.all_reduce(addend)


mode = "graph" if "graph" in sys.argv else "pynative"
cfg = SimpleNamespace(seed=1, device_target="CPU", context_mode=mode)
init_env(cfg)
all_reduce = Sum()
ones = Tensor(numpy.ones(1, numpy.float32))
for step in range(1, 4):
    total = float(all_reduce(ones).asnumpy()[0])
    if "silent" not in sys.argv:
        print(f"step {step} loss: {total / step:.3f}", flush=True)
if cfg.rank_id == int(sys.argv[2]):
    globals()[sys.argv[1]]()
all_reduce(ones).asnumpy()
