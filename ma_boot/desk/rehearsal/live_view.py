"""The live view below the output of a rehearsal on a terminal: the state of phases and ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.summary import events_of
from ma_boot.report.console import Console, Show, rendered
from ma_boot.report.timeline.events import EventFile, read_events
from ma_boot.report.timeline.job_timeline import NodeTimeline, Timeline
from ma_boot.report.timeline.merge import timeline_of
from ma_boot.wording import duration

POLL_SECONDS = 0.5
MOST_NODES = 16
MOST_ROWS_SHARE = 0.5  # of the terminal's height: the output matters more
SIGNS = {"cause": "✗", "followed": "✗", "stopped": "–", "well": "✓"}
COLOURS = {"✗": "bold red", "–": "yellow", "✓": "green", "●": "cyan", "○": "dim"}


@contextmanager
def live_view(job: SimulatedJob, console: Console) -> Iterator[None]:
    """Shows the job below the output while the block runs; only on an interactive console."""
    if not console.interactive:
        yield
        return
    over = threading.Event()
    with console.below() as show:
        arguments = (job, console, show, over)
        watch = threading.Thread(target=_watch, args=arguments, name="live view", daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join(2 * POLL_SECONDS)


def _watch(job: SimulatedJob, console: Console, show: Show, over: threading.Event) -> None:
    events = NodeEvents(job)
    started = time.monotonic()
    with suppress(Exception):  # without the view, the rehearsal goes on
        while not over.wait(POLL_SECONDS):
            size = console.size
            most = max(2, min(MOST_NODES + 1, int(size.lines * MOST_ROWS_SHARE)))
            rows = view(events.now(), job.nodes, time.monotonic() - started)
            show(painted(rows, size.columns, most))


class NodeEvents:
    """The events of the job's nodes; only files that have changed are read again."""

    def __init__(self, job: SimulatedJob) -> None:
        self._job = job
        self._known: dict[Path, tuple[tuple[int, int, int], EventFile]] = {}

    def now(self) -> Timeline:
        """The time line so far; of a node whose files have vanished it is what was read before."""
        for node in range(self._job.nodes):
            with suppress(OSError):  # a rescheduled node loses its directory, at any moment
                for file in events_of(self._job, node):
                    self._read(file)
        return timeline_of([events for _, events in self._known.values()])

    def _read(self, file: Path) -> None:
        status = file.stat()
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if file not in self._known or self._known[file][0] != state:
            text = file.read_text(encoding="utf-8", errors="replace")
            self._known[file] = (state, read_events(text, str))


Row = tuple[str, str, str]


def view(line: Timeline, nodes: int, seconds: float) -> list[Row]:
    """A row of totals, then one per node: its name, its phase, a sign for each process."""
    rows = [(f"node {node.number}", _phase(node), _signs(node)) for node in line.nodes]
    signs = "".join(sign for _, _, sign in rows)
    counted = "  ".join(f"{sign} {signs.count(sign)}" for sign in "○●✓–✗" if sign in signs)
    return [(duration(seconds), f"{len(rows)} of {nodes} nodes", counted), *rows]


def _phase(node: NodeTimeline) -> str:
    run = node.runs[-1]
    if run.exit_code is not None:
        return f"ended: {run.exit_code}"
    now = [phase.name for phase in run.phases if phase.end is None]
    return ", ".join(now) or "…"


def _signs(node: NodeTimeline) -> str:
    last = {process.label: process for process in node.runs[-1].processes}
    return "".join(
        ("●" if process.first_output is not None else "○")
        if process.end is None
        else SIGNS.get(process.role, "–")
        for process in last.values()
    )


def painted(rows: list[Row], columns: int, most: int) -> list[str]:
    """At most `most` lines for a terminal; the last one counts the nodes that are not shown."""
    from rich.table import Table  # only for a terminal
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
    return rendered(table, columns)
