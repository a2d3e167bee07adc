"""Trains with MindSpore, data-parallel, saves by `ModelCheckpoint` after each epoch, and goes on from what was restored.

The result is the same, to the bit, however often the job was interrupted. Arguments: the epochs in all, and the
pause after each in seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.train import CheckpointConfig, LambdaCallback, Model, ModelCheckpoint

from ma_boot.training import init_env

ROOT = Path("checkpoints")
STEPS = 2  # in an epoch


def say(what: str, **facts: object) -> None:
    """One write: processes share their output."""
    sys.stdout.write(f"{what} {json.dumps({'pid': os.getpid(), **facts})}\n")
    sys.stdout.flush()


def contents() -> dict[str, str]:
    """The digest of each file that is there, by its path."""
    files = [path for path in sorted(ROOT.rglob("*")) if path.is_file() and ".ma_boot" not in path.parts]
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main(epochs: int, pause: float) -> None:
    """Trains up to this epoch."""
    settings = argparse.Namespace(seed=1, device_target="CPU", context_mode="pynative")
    init_env(settings)
    rank = settings.rank_id
    done = os.environ.get("MABOOT_RESTORED_STEP")
    say("restored", rank=rank, step=done, source=os.environ.get("MABOOT_RESTORED_FROM"), files=contents())
    net = nn.SequentialCell(nn.Dense(8, 64), nn.ReLU(), nn.Dense(64, 1))
    step = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.02, 0.9)
    )
    mine = ROOT / f"rank_{rank}"
    if done:
        (file,) = mine.glob(f"*-{done}.ckpt")
        ms.load_param_into_net(step, ms.load_checkpoint(str(file)), strict_load=True)
    dice = np.random.default_rng(rank)
    x = dice.random((16 * STEPS, 8), np.float32)
    data = ds.NumpySlicesDataset((x, x.sum(1, keepdims=True)), ["x", "y"], shuffle=False).batch(16)

    def saved(run_context: Any) -> None:
        """`ModelCheckpoint` comes before."""
        weights = b"".join(one.asnumpy().tobytes() for one in net.trainable_params())
        epoch = run_context.original_args().cur_epoch_num
        say("saved", rank=rank, step=f"{epoch}_{STEPS}", weights=hashlib.sha256(weights).hexdigest())
        time.sleep(pause)

    config = CheckpointConfig(save_checkpoint_steps=STEPS, keep_checkpoint_max=2, integrated_save=False)
    Model(step).train(
        epochs, data, dataset_sink_mode=False, initial_epoch=int(done.split("_")[0]) if done else 0,
        callbacks=[ModelCheckpoint("net", str(mine), config), LambdaCallback(on_train_epoch_end=saved)],
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
