"""What a rehearsal shows below its output on a terminal: phases and ranks, as they are now."""

from __future__ import annotations

import io
import os
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Tuple

from ma_boot.console import Console
from ma_boot.local.platform import SimulatedJob
from ma_boot.page.events import EventFile, read_events
from ma_boot.page.timeline import timeline
from ma_boot.page.values import Node, Timeline
from ma_boot.page.words import duration

LOOK_SECONDS = 0.5
MOST_NODES = 16
MOST_ROWS_SHARE = 0.5  # of the terminal's height: the output is what counts
SIGNS = {"cause": "✗", "followed": "✗", "stopped": "–", "well": "✓"}
COLOURS = {"✗": "bold red", "–": "yellow", "✓": "green", "●": "cyan", "○": "dim"}


class LiveConsole(Console):
    """A console with some lines below its output, which are taken away before anything else is printed.

    The printing thread alone writes, so nothing of the output is touched: these lines never enter the queue.
    """

    def __init__(self, descriptor: int = 1) -> None:
        super().__init__(descriptor)
        self._below: Tuple[bytes, ...] = ()
        self._shown = 0
        self._over = False

    def show(self, lines: Tuple[bytes, ...]) -> None:
        """Puts these lines below the output, in place of those before."""
        if not self._over:
            self._below = lines
            self.write(b"")

    def hide(self) -> None:
        """Takes them away, for good."""
        self._over = True
        self._below = ()
        self.write(b"")

    def _put(self, data: bytes) -> bool:
        away = b"\x1b[%dF\x1b[J" % self._shown if self._shown else b""
        more = len(self._queue) > 1  # they come back after the last of it
        below = () if more else self._below
        self._shown = len(below)
        painted = (
            b"\x1b[?7l" + b"".join(line + b"\x1b[0m\n" for line in below) + b"\x1b[?7h" if below else b""
        )
        return super()._put(away + data + painted)


def console_for(environ: Mapping[str, str]) -> Console:
    """Standard output: with a live view where it is a terminal that can move its cursor."""
    able = os.isatty(1) and environ.get("TERM", "dumb") != "dumb"
    return LiveConsole() if able else Console()


@contextmanager
def live_view(job: SimulatedJob, console: Console) -> Iterator[None]:
    """Shows the job below the output while the block runs; does nothing on a plain console."""
    if not isinstance(console, LiveConsole):
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(job, console, over), name="live view", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join(2 * LOOK_SECONDS)
        console.hide()


def _watch(job: SimulatedJob, console: LiveConsole, over: threading.Event) -> None:
    events = _Events(job)
    began = time.monotonic()
    with suppress(Exception):  # a view that fails is no view: the rehearsal goes on without
        while not over.wait(LOOK_SECONDS):
            size = os.get_terminal_size(1)
            most = max(2, min(MOST_NODES + 1, int(size.lines * MOST_ROWS_SHARE)))
            rows = view(events.now(), job.nodes, time.monotonic() - began)
            console.show(painted(rows, size.columns, most))


class _Events:
    """The events of the job's nodes; a file is read again when it has grown."""

    def __init__(self, job: SimulatedJob) -> None:
        self._directories = [Path(job.log_dir(node)) for node in range(job.nodes)]
        self._known: Dict[Path, Tuple[int, EventFile]] = {}

    def now(self) -> Timeline:
        """What they tell at the moment."""
        for directory in self._directories:
            for file in directory.glob("*-events.jsonl"):
                size = file.stat().st_size
                if self._known.get(file, (-1,))[0] != size:
                    text = file.read_text(encoding="utf-8", errors="replace")
                    self._known[file] = (size, read_events(text, _as_it_is))
        return timeline([events for _, events in self._known.values()])


def _as_it_is(text: str) -> str:
    return text


Row = Tuple[str, str, str]


def view(line: Timeline, nodes: int, seconds: float) -> List[Row]:
    """A row for all, then one for each node: its name, its phase, a sign for each of its processes."""
    rows = [(f"node {node.number}", _phase(node), _signs(node)) for node in line.nodes]
    signs = "".join(sign for _, _, sign in rows)
    counted = "  ".join(f"{sign} {signs.count(sign)}" for sign in "○●✓–✗" if sign in signs)
    return [(duration(seconds), f"{len(rows)} of {nodes} nodes", counted), *rows]


def _phase(node: Node) -> str:
    start = node.starts[-1]
    if start.exit_code is not None:
        return f"ended: {start.exit_code}"
    now = [phase.name for phase in start.phases if phase.end is None]
    return ", ".join(now) or "…"


def _signs(node: Node) -> str:
    last = {life.label: life for life in node.starts[-1].lives}
    return "".join(
        ("●" if life.first is not None else "○") if life.end is None else SIGNS.get(life.part, "–")
        for life in last.values()
    )


def painted(rows: List[Row], columns: int, most: int) -> Tuple[bytes, ...]:
    """The rows as at most `most` lines of a terminal, the last one saying how many nodes are not shown."""
    from rich.console import Console as Terminal  # here alone: a job on the platform needs none
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True, overflow="ellipsis")
    shown = rows if len(rows) <= most else rows[: most - 1]
    for name, phase, signs in shown:
        marked = Text(signs)
        for sign, style in COLOURS.items():
            marked.highlight_words([sign], style)
        table.add_row(Text(name, "bold"), Text(phase, "cyan" if "ended" not in phase else "dim"), marked)
    if len(shown) < len(rows):
        table.add_row(Text(f"+{len(rows) - len(shown)}", "dim"), Text("more nodes", "dim"), Text(""))
    text = io.StringIO()
    Terminal(file=text, force_terminal=True, width=columns, color_system="standard").print(table)
    return tuple(part.encode("utf-8") for part in text.getvalue().rstrip("\n").split("\n"))
