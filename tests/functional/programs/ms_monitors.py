"""Trains a dense layer with MindSpore's Model, whose LossMonitor and TimeMonitor print as users see them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.dataset import GeneratorDataset
from mindspore.train import LossMonitor, Model, TimeMonitor

STEP_SECONDS = 0.1
STEPS = 20
EPOCHS = 3


def points() -> Iterator[tuple[Any, Any]]:
    """Points whose label is the sum of their coordinates, slowly."""
    chance = np.random.default_rng(1)
    for _ in range(STEPS):
        time.sleep(STEP_SECONDS)
        x = chance.standard_normal((16, 8)).astype(np.float32)
        yield x, x.sum(axis=1, keepdims=True)


def main() -> None:
    """Trains for three epochs of 20 steps."""
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    net = nn.Dense(8, 1)
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.05)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=optimizer)
    data = GeneratorDataset(points, ["x", "label"], shuffle=False)
    model.train(EPOCHS, data, callbacks=[LossMonitor(), TimeMonitor()], dataset_sink_mode=False)


if __name__ == "__main__":
    main()
