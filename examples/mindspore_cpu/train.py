"""Trains a small convolutional network on CIFAR-10 data, data-parallel, on the CPU or on Ascend.

The same file is right for one process and for many: `init_env` finds the others by what ma_boot has set.
Every rank reads its own shard, the gradients are averaged over all ranks, and each rank keeps its checkpoints
in a directory of its own. A restarted job resumes from the newest that all ranks have.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "3")  # MindSpore's own log: errors only, unless the job asks for more

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops

from ma_boot.training import init_env

KEPT = 2  # checkpoints of each rank that stay on the disk
RECORD = 1 + 3 * 32 * 32  # label and pixels, in the binary format of CIFAR-10


def parse_options() -> argparse.Namespace:
    """This script's options; the ones that the platform appends (--data_url, --train_url) are not ours."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", default="data", help="directory with data_batch_*.bin")
    parser.add_argument("--checkpoints", default="checkpoints", help="directory to write checkpoints to")
    parser.add_argument("--epochs", type=int, default=2, help="epochs in all, with those of earlier runs")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--device_target", default="CPU", help="CPU, Ascend, GPU or None")
    parser.add_argument("--context_mode", default="graph", help="graph or pynative")
    parser.add_argument("--seed", type=int, default=1)
    options, others = parser.parse_known_args()
    if others:
        print("arguments for somebody else:", *others, flush=True)
    return options


def images(options: argparse.Namespace) -> Any:
    """This rank's shard of the training images, in batches.

    Read here and not by `ds.Cifar10Dataset`, which takes files of 10,000 images only.
    """
    files = sorted(Path(options.data).glob("data_batch_*.bin"))
    if not files:
        raise SystemExit(f"no data_batch_*.bin in {options.data}")
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, RECORD) for file in files])
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 64 - 2
    data = ds.NumpySlicesDataset(
        (pixels, records[:, 0].astype(np.int32)),
        ["image", "label"],
        shuffle=True,
        num_shards=options.device_num,
        shard_id=options.rank_id,
    )
    return data.batch(options.batch_size, drop_remainder=True)


def network() -> Any:
    """Three convolutions and a linear layer: 10 classes, about 24,000 parameters."""

    def stage(channels_in: int, channels_out: int) -> tuple[Any, ...]:
        convolution = nn.Conv2d(channels_in, channels_out, 3, pad_mode="same", has_bias=True)
        return convolution, nn.ReLU(), nn.MaxPool2d(2, 2)

    layers = (*stage(3, 16), *stage(16, 32), *stage(32, 64))
    return nn.SequentialCell(*layers, nn.Flatten(), nn.Dense(64 * 4 * 4, 10))


def save(step: Any, directory: Path, epoch: int, steps: int) -> None:
    """Writes this rank's checkpoint, named as `ModelCheckpoint` does: `<prefix>-<epoch>_<step in the epoch>`.

    ma_boot publishes it once the files of all ranks on all nodes are there. MindSpore gives a file its name
    when it is complete.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ms.save_checkpoint(step, str(directory / f"cnn-{epoch}_{steps}.ckpt"), append_dict={"epoch": epoch})
    for old in sorted(directory.glob("cnn-*.ckpt"), key=numbers)[:-KEPT]:
        old.unlink()


def numbers(path: Path) -> tuple[int, ...]:
    """The epoch and the step in a checkpoint's name."""
    return tuple(map(int, path.stem.rpartition("-")[2].split("_")))


def restored(step: Any, directory: Path) -> int:
    """Loads the checkpoint that ma_boot has put in place; returns the number of epochs behind it."""
    name = os.environ.get("MABOOT_RESTORED_STEP")
    if not name:
        return 0
    parameters = ms.load_checkpoint(str(directory / f"cnn-{name}.ckpt"))
    epoch = int(parameters.pop("epoch").asnumpy())
    ms.load_param_into_net(step, parameters)
    print(f"resumed from epoch {epoch}", flush=True)
    return epoch


def all_equal(net: Any, ranks: int) -> bool:
    """Every rank holds the same parameters: the mean over all ranks is this rank's own."""
    mine = np.array([float(np.abs(p.asnumpy()).sum()) for p in net.trainable_params()], np.float32)
    mean = ops.AllReduce()(ms.Tensor(mine)).asnumpy() / ranks
    return bool(np.allclose(mine, mean, rtol=1e-5))


def main() -> None:
    """Trains, and leaves a checkpoint after each epoch."""
    options = parse_options()
    init_env(options)
    rank, ranks = options.rank_id, options.device_num
    checkpoints = Path(options.checkpoints) / f"rank_{rank}"
    net = network()
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.02, momentum=0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    step.set_train()
    data = images(options)
    for epoch in range(restored(step, checkpoints) + 1, options.epochs + 1):
        for number, (image, label) in enumerate(data.create_tuple_iterator(num_epochs=1), start=1):
            value = float(step(image, label).asnumpy())
            if number == 1 or number % 10 == 0:
                print(f"epoch: {epoch} step: {number}, loss is {value:.4f}", flush=True)
        save(step, checkpoints, epoch, data.get_dataset_size())
    if ranks > 1:
        if not all_equal(net, ranks):
            raise SystemExit(f"rank {rank} holds other parameters than the rest: gradients were not averaged")
        print(f"parameters equal on all {ranks} ranks", flush=True)


if __name__ == "__main__":
    main()
