"""Trains with PyTorch, saves by torch.distributed.checkpoint after each step, and goes on from what was restored.

The result is the same, to the bit, however often the job was interrupted. Arguments: the steps in all, and the
pause after each in seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

ROOT = Path("checkpoints")


def say(what: str, **facts: object) -> None:
    """One write: processes share their output."""
    sys.stdout.write(f"{what} {json.dumps({'rank': dist.get_rank(), 'pid': os.getpid(), **facts})}\n")
    sys.stdout.flush()


def contents() -> dict[str, str]:
    """The digest of each file that is there, by its path."""
    files = [path for path in sorted(ROOT.rglob("*")) if path.is_file() and ".ma_boot" not in path.parts]
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def digest(model: torch.nn.Module) -> str:
    """The digest of all weights."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main(steps: int, pause: float) -> None:
    """Trains up to this step."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = torch.zeros(1000) + rank  # what only this rank has, so that each writes a file of its own
    state = {"model": model.state_dict(), f"seen.{rank}": seen}
    done = os.environ.get("MABOOT_RESTORED_STEP")
    say("restored", step=done, source=os.environ.get("MABOOT_RESTORED_FROM"), files=contents())
    if done:
        dcp.load(state, checkpoint_id=str(ROOT / f"step_{done}"))
        model.load_state_dict(state["model"])
        assert int(seen[0]) == rank + 10 * int(done), "another rank's, or another step's"
    for step in range(int(done or 0) + 1, steps + 1):
        generator = torch.Generator().manual_seed(1000 * step + rank)
        x = torch.rand(16, 8, generator=generator)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # DDP would sum up in another order in its first step
        optimizer.step()
        seen += 10
        dcp.save(
            {"model": model.state_dict(), f"seen.{rank}": seen}, checkpoint_id=str(ROOT / f"step_{step}")
        )
        say("saved", step=step, weights=digest(model))
        time.sleep(pause)
    say("trained", of=size, weights=digest(model))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
