"""Trains a line with PyTorch's DistributedDataParallel, as PyTorch's own examples do; says what it saw."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

NAMES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "DEVICE_ID")

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.rand(64, 2)[rank::size]  # each rank has its own part of the data
y = x @ torch.tensor([[2.0], [3.0]]) + 1
losses = []
for step in range(60):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if "fail" in sys.argv and step == 5 and rank == size - 1:
        raise ValueError("planted in the last rank")
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
highest = weights.clone()
dist.all_reduce(highest, op=dist.ReduceOp.MAX)
seen: dict[str, Any] = {name: os.environ.get(name) for name in (*NAMES, "RANK_TABLE_FILE", "RANK_ID")}
if "environ" in sys.argv:
    seen.update(environ=dict(os.environ), losses=losses)
line = {"first": losses[0], "last": losses[-1], "equal": bool(torch.equal(weights, highest)), **seen}
sys.stdout.write(f"trained {json.dumps(line)}\n")  # one write: torchrun's processes share their output
sys.stdout.flush()
dist.barrier()  # none leaves while another still talks
dist.destroy_process_group()
