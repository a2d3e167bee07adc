"""Joins MindSpore's group by `ma_boot.training`, adds up over all ranks, and says what it saw."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy
from mindspore import Tensor, ops

from ma_boot.training import init_env

if "scheduler-fails" in sys.argv and os.environ.get("MS_ROLE") == "MS_SCHED":
    raise ValueError("planted in the scheduler")
names = ("MS_NODE_ID", "MS_WORKER_NUM", "DEVICE_ID", "LOCAL_RANK", "RANK_TABLE_FILE")
# Before MindSpore joins, which changes DEVICE_ID.
seen: dict[str, Any] = {name: os.environ.get(name) for name in names}
if "environ" in sys.argv:
    seen["environ"] = dict(os.environ)
cfg = SimpleNamespace(seed=1, device_target="CPU", context_mode="pynative")
init_env(cfg)
total = ops.AllReduce()(Tensor(numpy.array([cfg.rank_id + 1.0], numpy.float32)))
line = {"rank": cfg.rank_id, "size": cfg.device_num, "sum": float(total.asnumpy()[0]), **seen}
sys.stdout.write(f"summed {json.dumps(line)}\n")
sys.stdout.flush()
