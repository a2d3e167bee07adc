"""Trains with PyTorch, saves by torch.distributed.checkpoint after each step, and resumes from the restored checkpoint.

The result is the same, to the bit, however often the job was interrupted. The arguments are those of `interrupted`.
"""

from __future__ import annotations

import argparse
import hashlib
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from interrupted import ROOT, arguments, raise_if_planted, say, say_restored  # type: ignore[import-not-found]  # beside this script


def digest(model: torch.nn.Module) -> str:
    """The digest of all weights."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main(job: argparse.Namespace) -> None:
    """Trains up to the last step."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = torch.zeros(1000) + rank  # what only this rank has, so that each writes a file of its own
    state = {"model": model.state_dict(), f"seen.{rank}": seen}
    done = say_restored(rank)
    if done:
        dcp.load(state, checkpoint_id=str(ROOT / f"step_{done}"))
        model.load_state_dict(state["model"])
        assert int(seen[0]) == rank + 10 * int(done), "another rank's, or another step's"
    for step in range(int(done or 0) + 1, job.steps + 1):
        raise_if_planted(job.raises, rank, step)
        generator = torch.Generator().manual_seed(1000 * step + rank)
        x = torch.rand(16, 8, generator=generator)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # DDP would sum up in another order in its first step
        optimizer.step()
        say("step", rank, step=step, loss=loss.item())
        seen += 10
        dcp.save(
            {"model": model.state_dict(), f"seen.{rank}": seen}, checkpoint_id=str(ROOT / f"step_{step}")
        )
        say("saved", rank, step=step, weights=digest(model))
        time.sleep(job.pause)
    say("trained", rank, of=size, weights=digest(model))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(arguments())
