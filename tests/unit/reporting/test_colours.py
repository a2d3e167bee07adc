"""Colours of lines on a terminal."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.text import Text

from ma_boot.reporting.console import Console, painted, rendered

RED, YELLOW, GREEN, PLAIN = b"\x1b[31m", b"\x1b[33m", b"\x1b[32m", b"\x1b[0m"
SGR = re.compile(rb"\x1b\[\d*m")


@pytest.mark.parametrize(
    ("words", "style"),
    [
        (b"exit code 1: rank 3 ended with exit code 1", RED),
        (b"run          failed        1.5 s", RED),
        (b"run: failed in 0.2 s: rank 1 ended with exit code 3", RED),
        (b"  | ValueError: no layer", RED),
        (b"torch.distributed.DistBackendError: x", RED),
        (b"Traceback (most recent call last):", RED),
        (b"[ERROR] HCCL: EI0006", RED),
        (b"[WARNING] ME(1): slow", YELLOW),
        (b"x.py:3: UserWarning: old", YELLOW),
        (b"hint: add --workdir code", YELLOW),
        (b"exit code 0: success", GREEN),
        (b"step 3 loss: 0.5 errors 0", b""),
        (b"epoch 1: mean absolute error 0.1", b""),
    ],
)
def test_what_a_line_tells_has_a_colour(words: bytes, style: bytes) -> None:
    line = painted(b"[node 1] [rank 3] " + words + b"\n")
    assert SGR.sub(b"", line) == b"[node 1] [rank 3] " + words + b"\n"
    assert line.endswith((style + words + PLAIN if style else words) + b"\n")


def test_each_rank_has_its_colour_and_keeps_its_own() -> None:
    one, two = painted(b"[rank 1] a\n"), painted(b"[rank 2] a\n")
    assert one.partition(b"[rank")[0] != two.partition(b"[rank")[0]
    assert painted(b"[rank 1] \x1b[35mERROR\x1b[0m\n").endswith(b"[rank 1]\x1b[0m \x1b[35mERROR\x1b[0m\n")


def test_what_has_no_prefix_of_ours_stays() -> None:
    for data in (b"", b"\n", b"Traceback\n", b"[INFO] rank 3\n", b"\xff\xfe\n", b"[rank x] ERROR\n"):
        assert painted(data) == data


@pytest.mark.parametrize("colours", [False, True])
def test_only_a_console_with_colours_paints(tmp_path: Path, colours: bool) -> None:
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    with Console(descriptor, colours=colours) as console:
        console.write(b"[rank 0] ERROR\n")
        console.write(b"[rank 1] fine\n")
    os.close(descriptor)
    text = (tmp_path / "out").read_bytes()
    assert (b"\x1b" in text) is colours
    assert SGR.sub(b"", text) == b"[rank 0] ERROR\n[rank 1] fine\n"


def test_what_is_shown_below_has_its_colours_and_the_width_of_the_terminal() -> None:
    assert rendered(Text("rank 0 rank 1", style="red"), 6) == [
        "\x1b[31mrank 0\x1b[0m",
        "\x1b[31mrank 1\x1b[0m",
    ]
