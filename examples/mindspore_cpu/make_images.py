"""Writes a small image set that a network can learn, in the binary format of CIFAR-10.

    python make_images.py DIRECTORY [--images N] [--seed S]

Each record is a label byte and 3 x 32 x 32 bytes (https://www.cs.toronto.edu/~kriz/cifar.html). A class is a
stripe pattern of its own direction and colour; noise and a random shift make it something to learn. Needs the
standard library only, so that the images can be made without the training environment.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

CLASSES = 10
SIDE = 32
SHIFTS = 16  # of the stripes of a class
BYTES = 3 * SIDE * SIDE
NOISE = 63  # the largest; a mask, too
NOISE_MASK = int.from_bytes(bytes([NOISE]) * BYTES, "big")


def pattern(label: int, shift: int) -> int:
    """The pixels of a class without noise, as a number whose bytes they are: each is between 6 and 186."""
    angle, phase = label * math.pi / CLASSES, shift * 2 * math.pi / SHIFTS
    colours = (math.cos(label), math.cos(2 * label), math.sin(label))
    stripes = [
        math.sin((math.cos(angle) * row + math.sin(angle) * column) * 0.7 + phase)
        for row in range(SIDE)
        for column in range(SIDE)
    ]
    return int.from_bytes(
        bytes(int(96 + 60 * (stripe + 0.5 * colour)) for colour in colours for stripe in stripes), "big"
    )


def write(path: Path, count: int, patterns: list[list[int]], dice: random.Random) -> None:
    """Writes one file of records."""
    with path.open("wb") as file:
        for _ in range(count):
            label = dice.randrange(CLASSES)
            # Adds the noise to all pixels at once: no byte exceeds 255, so none carries over.
            pixels = dice.choice(patterns[label]) + (dice.getrandbits(8 * BYTES) & NOISE_MASK)
            file.write(bytes([label]) + pixels.to_bytes(BYTES, "big"))


def main() -> None:
    """Writes data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--images", type=int, default=4000, help="number of training images")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    dice = random.Random(options.seed)
    patterns = [[pattern(label, shift) for shift in range(SHIFTS)] for label in range(CLASSES)]
    for batch in range(1, 6):
        write(options.directory / f"data_batch_{batch}.bin", options.images // 5, patterns, dice)
    write(options.directory / "test_batch.bin", options.images // 5, patterns, dice)


if __name__ == "__main__":
    main()
