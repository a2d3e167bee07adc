"""Trains with MindSpore, data-parallel, saves by `ModelCheckpoint` after each epoch, and resumes from the restored checkpoint.

The result is the same, to the bit, however often the job was interrupted. The arguments are those of `interrupted`,
whose steps are epochs here.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from typing import Any

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from interrupted import ROOT, arguments, raise_if_planted, say, say_restored  # type: ignore[import-not-found]  # beside this script
from mindspore import nn
from mindspore.train import CheckpointConfig, LambdaCallback, Model, ModelCheckpoint

from ma_boot.training import init_env

STEPS = 2  # in an epoch


def main(job: argparse.Namespace) -> None:
    """Trains up to the last epoch."""
    settings = argparse.Namespace(seed=1, device_target="CPU", context_mode="pynative")
    init_env(settings)
    rank = settings.rank_id
    done = say_restored(rank)
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

    def begun(run_context: Any) -> None:
        raise_if_planted(job.raises, rank, run_context.original_args().cur_epoch_num)

    def stepped(run_context: Any) -> None:
        """Comes before `ModelCheckpoint`."""
        now = run_context.original_args()
        number = (now.cur_step_num - 1) % STEPS + 1
        say("step", rank, step=f"{now.cur_epoch_num}_{number}", loss=float(now.net_outputs.asnumpy()))

    def saved(run_context: Any) -> None:
        """Comes after it."""
        weights = b"".join(parameter.asnumpy().tobytes() for parameter in net.trainable_params())
        epoch = run_context.original_args().cur_epoch_num
        say("saved", rank, step=f"{epoch}_{STEPS}", weights=hashlib.sha256(weights).hexdigest())
        time.sleep(job.pause)

    config = CheckpointConfig(save_checkpoint_steps=STEPS, keep_checkpoint_max=2, integrated_save=False)
    Model(step).train(
        job.steps, data, dataset_sink_mode=False, initial_epoch=int(done.split("_")[0]) if done else 0,
        callbacks=[
            LambdaCallback(on_train_epoch_begin=begun, on_train_step_end=stepped),
            ModelCheckpoint("net", str(mine), config), LambdaCallback(on_train_epoch_end=saved),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main(arguments())
