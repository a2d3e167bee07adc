"""Colours of lines on a terminal, and of the page."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.text import Text

from ma_boot.report.console import Console, painted, rendered
from ma_boot.report.page.template import TEMPLATES

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
        (b"exit code 0, but a process of the training failed: ValueError: x", YELLOW),
        (b"in doubt: rank 1, pid 7; its log: /log", YELLOW),
        (b"step 3 loss: 0.5 errors 0", b""),
        (b"epoch 1: mean absolute error 0.1", b""),
    ],
)
def test_failures_warnings_and_success_have_colours(words: bytes, style: bytes) -> None:
    line = painted(b"[node 1] [rank 3] " + words + b"\n")
    assert SGR.sub(b"", line) == b"[node 1] [rank 3] " + words + b"\n"
    assert line.endswith((style + words + PLAIN if style else words) + b"\n")


def test_each_rank_has_its_colour_and_keeps_its_own() -> None:
    first, second = painted(b"[rank 1] a\n"), painted(b"[rank 2] a\n")
    assert first.partition(b"[rank")[0] != second.partition(b"[rank")[0]
    assert painted(b"[rank 1] \x1b[35mERROR\x1b[0m\n").endswith(b"[rank 1]\x1b[0m \x1b[35mERROR\x1b[0m\n")


def test_lines_without_a_prefix_stay_unchanged() -> None:
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


def test_lines_below_have_colours_and_the_width_of_the_terminal() -> None:
    assert rendered(Text("rank 0 rank 1", style="red"), 6) == [
        "\x1b[31mrank 0\x1b[0m",
        "\x1b[31mrank 1\x1b[0m",
    ]


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(colour: str, other: str) -> float:
    dark, light = sorted((_luminance(colour), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_bars_and_lines_stand_out_and_what_is_written_on_them_can_be_read(theme: int) -> None:
    """WCAG 2.1: 3 : 1 for what is drawn (1.4.11), 4.5 : 1 for small text (1.4.3)."""
    themes = re.findall(r":root \{(.*?)\}", (TEMPLATES / "page.css").read_text(), re.DOTALL)
    colours: dict[str, str] = {}
    for text in themes[: theme + 1]:
        colours.update(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", text))
    drawn = [
        name
        for name in colours
        if re.fullmatch(r"[pl]\d|well|doubtful|cause|followed|stopped|unknown|quiet|slow|each", name)
    ]
    assert len(drawn) > 20
    assert {name for name in drawn if _contrast(colours[name], colours["card"]) < 3} == set()
    assert {
        name for name in drawn if name[0] == "p" and _contrast(colours[name], colours["onp"]) < 4.5
    } == set()
