"""Fills the template of the page, within a limit of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ma_boot import __version__
from ma_boot.report.page.charts import charts_part
from ma_boot.report.page.data import data_part
from ma_boot.report.page.fill import Html, files, fill
from ma_boot.report.page.head import facts_part, head_parts, notices
from ma_boot.report.page.lanes import Chart, lane, timeline_part
from ma_boot.report.page.tables import (
    incidents_part,
    log_parts,
    logs_part,
    processes_part,
    stacks_part,
    start_part,
)
from ma_boot.report.result import CAUSE, FOLLOWED
from ma_boot.report.timeline.events import printable
from ma_boot.report.timeline.job_timeline import NodeTimeline, Timeline

MOST_BYTES = 1_990_000  # and the heading of the logs
BYTES_FOR_LOGS = 20_000


def page_text(timeline: Timeline, tails: Mapping[str, str], links: Mapping[str, str] | None = None) -> str:
    """The whole page in English and Chinese, less than 2 MB for any job.

    `tails` are ends of logs, `links` the relative URLs of whole logs, both by file. The page loads nothing.
    Without a script it shows all that it has, in English; only search and copying need one.
    """
    tails = {file: printable(text) for file, text in tails.items()}
    chart, nodes = Chart.of(timeline), timeline.nodes
    fixed = _fixed(timeline, tails)
    frame = fill("page", **fixed, timeline=timeline_part(timeline, chart, ()), logs="")
    room = MOST_BYTES - _bytes(frame)

    every_lane = [lane(node, timeline.seconds, chart) for node in nodes]
    failed_first = sorted(range(len(nodes)), key=lambda number: not _has_failure(nodes[number]))
    lanes = _fitting(every_lane, failed_first, room - BYTES_FOR_LOGS)
    room -= sum(map(_bytes, lanes))

    every_log = log_parts(timeline, tails, links or {})
    logs = _fitting(every_log, range(len(every_log)), room)
    left = sum(1 for _ in timeline.last_processes()) - len(logs)
    drawn = timeline_part(timeline, chart, lanes)
    return fill("page", **fixed, timeline=drawn, logs=logs_part(logs, left))


def _fixed(timeline: Timeline, tails: Mapping[str, str]) -> dict[str, object]:
    """What the page shows whatever room there is."""
    name, code = timeline.program or timeline.job or "ma_boot", timeline.outcome.exit_code
    return {
        "title": f"{name}: {'end unknown' if code is None else f'exit code {code}'}",
        **head_parts(timeline, tails),
        "facts": facts_part(timeline),
        "notices": notices(timeline),
        "stacks": stacks_part(timeline),
        "charts": charts_part(timeline),
        "data": data_part(timeline),
        "incidents": incidents_part(timeline),
        "processes": processes_part(timeline),
        "start": start_part(timeline),
        "began": f"{timeline.began:.3f}",
        "seconds": f"{timeline.seconds:.3f}",
        **files(),
        "version": __version__,
    }


def _has_failure(node: NodeTimeline) -> bool:
    return any(process.role in (CAUSE, FOLLOWED) for run in node.runs for process in run.processes)


def _fitting(parts: Sequence[Html], order: Iterable[int], room: int) -> list[Html]:
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
