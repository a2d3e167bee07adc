"""Fills the templates of the page, within a limit of bytes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Sequence

from ma_boot import __version__
from ma_boot.reporting import size
from ma_boot.reporting.page.lanes import Chart, lane
from ma_boot.reporting.page.scale import scale
from ma_boot.reporting.page.sections import (
    MOST_INCIDENTS,
    facts,
    header,
    incident_rows,
    log_ends,
    process_rows,
)
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.timeline import CAUSE, FOLLOWED, NodeTimeline, Timeline, printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MOST_BYTES = 298_000  # and the heading of the logs
BYTES_FOR_LOGS = 20_000
TEMPLATES = Path(__file__).with_name("templates")


def page_text(timeline: Timeline, tails: Mapping[str, str]) -> str:
    """The whole page in English and Chinese, less than 300 kB for any job; `tails` are ends of logs, by file.

    It loads nothing, and shows everything but the choice of the language without a script.
    """
    tails = {file: printable(text) for file, text in tails.items()}
    fixed, count = _fixed(timeline, tails), len(timeline.nodes)
    frame = _rendered("page.html", fixed, lanes=(), nodes_left=count, logs=(), logs_left=0)
    room = MOST_BYTES - _bytes(frame)

    chart = Chart.of(timeline)
    every_lane = [_rendered("lane.html", lane=lane(n, timeline.seconds, chart)) for n in timeline.nodes]
    failed_first = sorted(range(count), key=lambda number: not _has_failure(timeline.nodes[number]))
    lanes = _fitting(every_lane, failed_first, room - BYTES_FOR_LOGS)
    room -= sum(map(_bytes, lanes))

    every_log = [_rendered("log.html", log=log) for log in log_ends(timeline, tails)]
    logs = _fitting(every_log, range(len(every_log)), room)
    logs_left = sum(1 for _ in timeline.last_processes()) - len(logs)
    nodes_left = count - len(lanes)
    return _rendered("page.html", fixed, lanes=lanes, nodes_left=nodes_left, logs=logs, logs_left=logs_left)


def _rendered(name: str, *values: Mapping[str, Any], **more: Any) -> Markup:
    from markupsafe import Markup  # like jinja2 only where a page is made

    return Markup(_templates().get_template(name).render(*values, **more))


def _fixed(timeline: Timeline, tails: Mapping[str, str]) -> Mapping[str, Any]:
    """What the page shows whatever room there is."""
    code = timeline.outcome.exit_code
    incidents = incident_rows(timeline)
    processes, each_process = process_rows(timeline)
    return {
        "title": f"{timeline.job or 'ma_boot'}: {'end unknown' if code is None else f'exit code {code}'}",
        "header": header(timeline, tails),
        "facts": facts(timeline),
        "earlier_runs": timeline.earlier_runs,
        "unreadable": timeline.unreadable,
        "scale": scale(timeline.seconds),
        "chart": Chart.of(timeline),
        "transfers": transfers(timeline),
        "incidents": incidents[:MOST_INCIDENTS],
        "incidents_left": max(0, len(incidents) - MOST_INCIDENTS),
        "processes": processes,
        "each_process": each_process,
    }


def _has_failure(node: NodeTimeline) -> bool:
    return any(process.role in (CAUSE, FOLLOWED) for run in node.runs for process in run.processes)


def _fitting(parts: Sequence[Markup], order: Iterable[int], room: int) -> List[Markup]:
    """The parts that fit into `room` bytes, taken in this order; in their own order again."""
    chosen = []
    for number in order:
        room -= _bytes(parts[number])
        if room < 0:
            break
        chosen.append(number)
    return [parts[number] for number in sorted(chosen)]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8"))


@cache
def _templates() -> Environment:
    """The templates, which escape all that is filled in, with style sheet and scripts."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = re.sub(r"/\*.*?\*/", "", (TEMPLATES / "page.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    found.globals["style"] = Markup(re.sub(r"\s*([{};])\s*", r"\1", style).strip())
    for name in ("choose_language", "change_language"):
        found.globals[name] = Markup((TEMPLATES / f"{name}.js").read_text(encoding="utf-8"))
    found.globals.update(size=size, version=__version__)
    return found
