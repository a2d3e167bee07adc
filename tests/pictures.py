"""`python -m tests.pictures` writes docs/pictures: the terminal, the page and the charts, of rehearsals run here.

The diagrams, phases.svg and checkpoints.svg, are written by hand.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from ma_boot.report.console import painted
from tests.browser.conftest import program_of_browser

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 110
# Lines of the rehearsal that the picture of the terminal shows: the start, a step of each rank, and how it ends.
SHOWN = r"^\$ |^\[ma_boot\] |: done in|step 1/60|ValueError: bad label|: stopping rank|: stopped because"
HIDDEN = r"environment: done|^\[ma_boot\] (logs:|node \d)|\| |the job's cause|SIGTERM received"
WINDOW = (1180, 720)
LAUNCHERS = ("ma_boot", "honcho", "mpirun", "torchrun", "msrun", "davincirunsdk")
TABLES = {"start": "8 ranks, from start to end", "failure": "from the failure of a rank to the end"}
TRAIN = """\
import math, os, pathlib, sys, time

rank, ranks = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])


def next_batch(step):
    if "hang" in sys.argv and rank == 1 and step == 30:
        time.sleep(600)
    if "bad-data" in sys.argv and rank == 3 and step == 40:
        raise ValueError("bad label 91 in shard-0003.tar")
    time.sleep(0.1)


def barrier(step, place):
    (place / f"{step}-{rank}").touch()
    while len([*place.glob(f"{step}-*")]) < ranks:
        time.sleep(0.01)


for step in range(1, 61):
    next_batch(step)
    if "hang" in sys.argv:
        barrier(step, pathlib.Path(sys.argv[-1]))
    print(f"step {step}/60 loss: {2.3 * math.exp(-step / 25) + 0.02 * rank:.4f}")
"""


# A start script as in the guides: it starts the ranks of its node itself, each with a file for its output.
SCRIPT = """\
#!/bin/bash
cd "$(dirname "$0")"
for ((i = 0; i < 2; i++)); do
    export DEVICE_ID=$i RANK_ID=$((RANK_START + i))
    python3 -u train.py bad-data > "train$RANK_ID.log" 2>&1 &
done
wait
"""


class Rehearsed(NamedTuple):
    """Output of a rehearsal, with the colours of a terminal, and its page."""

    output: str
    page: Path


def main() -> None:
    """Writes all generated pictures."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "launchers.svg").write_text(
        chart("".join((ROOT / "benchmarks" / page).read_text() for page in ("README.md", "RESULTS.md")))
    )
    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "resnet")
        project.mkdir()
        (project / "train.py").write_text(TRAIN)
        (project / "run.sh").write_text(SCRIPT)
        (project / "barriers").mkdir()
        hang = ("train.py", "hang", str(project / "barriers"))
        script = ("--sandbox", "bwrap", "--workdir", "code", "bash", "run.sh")
        jobs = {
            "success": rehearse(project, "--sandbox", "bwrap", "train.py"),
            "exception": rehearse(project, "--sandbox", "bwrap", "train.py", "bad-data"),
            "script": rehearse(project, *script, MABOOT_SCRIPT_RANK_GRACE="1"),
            "hang": rehearse(project, "--hang-timeout", "5", "--hang-action", "stop", *hang),
        }
        (PICTURES / "terminal.svg").write_text(terminal(jobs["exception"].output))
        photograph({name: job.page for name, job in jobs.items()})


def rehearse(project: Path, *words: str, **variables: str) -> Rehearsed:
    """Runs the training in a rehearsal of two nodes with two ranks each."""
    words = ("--local", "--nodes", "2", "--devices-per-node", "2", *words)
    own = {
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "MABOOT_METRICS": "1",
        "PATH": "/usr/bin:/bin",
    }
    environ = {**os.environ, **own, **variables}  # a python of the system, as on any machine
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *words], cwd=project, env=environ, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, text=True, encoding="utf-8",
    )  # fmt: skip
    page = max(project.glob("ma_boot-rehearsal/*/report.html"), key=os.path.getmtime)
    return Rehearsed(f"$ ma_boot {' '.join(words)}\n{done.stdout.replace(str(project), '~/resnet')}", page)


def terminal(output: str) -> str:
    """Draws a terminal with the main lines of this output, in their colours; the picture loads no font."""
    lines = output.splitlines()
    shown = [line for line in lines if re.search(SHOWN, line) and not re.search(HIDDEN, line)]
    steps = [number for number, line in enumerate(shown) if "step 1/60" in line]
    text = "\n".join([*shown[: steps[1] + 1], "...", *shown[steps[-1] + 1 :]])
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(painted(text.encode()).decode()))
    plain = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="a rehearsal", code_format=plain, unique_id="terminal")


def photograph(pages: dict[str, Path]) -> None:
    """Writes the upper part of each page, in light and in dark."""
    width, height = WINDOW
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program_of_browser(), args=["--no-sandbox"])
        for name, page in pages.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    locale="en-US",
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if scheme == "dark" else "light",
                )
                tab = context.new_page()
                tab.goto(page.as_uri())
                tab.screenshot(path=PICTURES / f"page-{name}-{scheme}.png")
        browser.close()


def rows_of(text: str, table: str) -> Iterator[tuple[str, float]]:
    """Launchers and their medians in seconds, of a table that a benchmark has written."""
    part = text.partition(f"<!-- {table} -->")[2].partition(f"<!-- /{table} -->")[0]
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[1] in LAUNCHERS:
            yield cells[1], float(cells[2])


def chart(text: str) -> str:
    """Bars of two tables of the benchmarks."""
    parts: list[str] = []
    for number, (table, title) in enumerate(TABLES.items()):
        parts += _bars(title, sorted(rows_of(text, table), key=lambda row: row[1]), 20 + 440 * number)
    return _svg(900, 60 + 28 * len(LAUNCHERS), parts)


def _bars(title: str, rows: Sequence[tuple[str, float]], left: int) -> Iterator[str]:
    longest = max(seconds for _, seconds in rows)
    yield f'<text x="{left}" y="28" class="title">{title} (s)</text>'
    for number, (name, seconds) in enumerate(rows):
        y, width = 44 + 28 * number, max(2, 210 * seconds / longest)
        own = ' class="own"' if name == "ma_boot" else ""
        yield f'<text x="{left}" y="{y + 15}">{name}</text>'
        yield f'<rect x="{left + 120}" y="{y}" width="{width:.0f}" height="20"{own}/>'
        yield f'<text x="{left + 126 + width:.0f}" y="{y + 15}">{seconds:.2f}</text>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    style = (
        "text{font:13px sans-serif;fill:#24292f}.title{font-weight:bold}rect{fill:#8c959f}.own{fill:#0969da}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#6e7681}.own{fill:#58a6ff}}"
    )
    start = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([start, f"<style>{style}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    main()
