"""Writes a small image set that a network can learn, in the binary format of CIFAR-10.

    python make_images.py DIRECTORY [--images N] [--seed S]

Each record is a label byte and 3 x 32 x 32 bytes (https://www.cs.toronto.edu/~kriz/cifar.html). A class is a
stripe pattern of its own direction and colour; noise and a random shift make it something to learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

CLASSES = 10
SIDE = 32


def images(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Images of these classes as uint8, shaped (n, 3, 32, 32)."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    angle = (labels * np.pi / CLASSES)[:, None, None]
    shift = random.uniform(0, 2 * np.pi, labels.size)[:, None, None]
    stripes = np.sin((np.cos(angle) * rows + np.sin(angle) * columns) * 0.7 + shift)
    colour = np.stack([np.cos(labels), np.cos(2 * labels), np.sin(labels)], axis=1)[:, :, None, None]
    noise = random.normal(0, 0.35, (labels.size, 3, SIDE, SIDE))
    return np.clip(128 + 60 * (stripes[:, None] + 0.5 * colour + noise), 0, 255).astype(np.uint8)


def write(path: Path, count: int, random: np.random.Generator) -> None:
    """Writes one file of records."""
    labels = random.integers(0, CLASSES, count)
    pixels = images(labels, random).reshape(count, -1)
    path.write_bytes(np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1).tobytes())


def main() -> None:
    """Writes data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--images", type=int, default=4000, help="number of training images")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(options.seed)
    for batch in range(1, 6):
        write(options.directory / f"data_batch_{batch}.bin", options.images // 5, random)
    write(options.directory / "test_batch.bin", options.images // 5, random)


if __name__ == "__main__":
    main()
