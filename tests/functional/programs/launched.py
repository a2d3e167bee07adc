"""Rank of any PyTorch launcher: meets the other ranks over gloo, and prints its place in the job."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
count = torch.ones(1)
dist.all_reduce(count)
place = f"{dist.get_rank()} of {int(count)} at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
sys.stdout.write(f"TRAINED {place}\n")  # one write: a launcher's processes share their output
sys.stdout.flush()
dist.barrier()  # none leaves while another still talks
dist.destroy_process_group()
