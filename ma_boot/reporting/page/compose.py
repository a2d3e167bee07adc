"""Fills the templates of the page, within a limit of bytes."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Sequence

from ma_boot import __version__
from ma_boot.reporting.page.charts import charts, marked
from ma_boot.reporting.page.fill import NOTHING, Html, files, fill
from ma_boot.reporting.page.lanes import Chart, lane, scale
from ma_boot.reporting.page.layout import (
    data_part,
    facts_part,
    head_parts,
    incidents_part,
    lane_part,
    log_part,
    logs_part,
    notices,
    processes_part,
    start_part,
    timeline_part,
)
from ma_boot.reporting.page.measured import charts_part, stacks_part
from ma_boot.reporting.page.sections import (
    MOST_INCIDENTS,
    commands,
    facts,
    header,
    incident_rows,
    log_ends,
    place_rows,
    process_rows,
)
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.timeline import CAUSE, FOLLOWED, NodeTimeline, Timeline, printable

MOST_BYTES = 1_990_000  # and the heading of the logs
BYTES_FOR_LOGS = 20_000


def page_text(
    timeline: Timeline,
    tails: Mapping[str, str],
    links: Optional[Mapping[str, str]] = None,
) -> str:
    """The whole page in English and Chinese, less than 2 MB for any job.

    `tails` are ends of logs, `links` the relative URLs of whole logs, both by file. The page loads nothing.
    Without a script it shows all that it has, in English; only search and copying need one.
    """
    tails = {file: printable(text) for file, text in tails.items()}
    chart, axis, count = Chart.of(timeline), scale(timeline.seconds), len(timeline.nodes)
    fixed = _fixed(timeline, tails)
    frame = fill("page", **fixed, timeline=timeline_part(chart, axis, (), count), logs="")
    room = MOST_BYTES - _bytes(frame)

    every_lane = [lane_part(lane(node, timeline.seconds, chart)) for node in timeline.nodes]
    failed_first = sorted(range(count), key=lambda number: not _has_failure(timeline.nodes[number]))
    lanes = _fitting(every_lane, failed_first, room - BYTES_FOR_LOGS)
    room -= sum(map(_bytes, lanes))

    every_log = [log_part(log) for log in log_ends(timeline, tails, links or {})]
    logs = _fitting(every_log, range(len(every_log)), room)
    logs_left = sum(1 for _ in timeline.last_processes()) - len(logs)
    drawn = timeline_part(chart, axis, lanes, count - len(lanes))
    return fill("page", **fixed, timeline=drawn, logs=logs_part(logs, logs_left))


def _fixed(timeline: Timeline, tails: Mapping[str, str]) -> Dict[str, object]:
    """What the page shows whatever room there is."""
    code = timeline.outcome.exit_code
    incidents = incident_rows(timeline)
    numbers = facts(timeline)
    return {
        "title": f"{timeline.job or 'ma_boot'}: {'end unknown' if code is None else f'exit code {code}'}",
        **head_parts(header(timeline, tails)),
        "facts": facts_part(numbers),
        "notices": notices(numbers, timeline.unreadable, timeline.earlier_runs),
        "data": data_part(place_rows(timeline), transfers(timeline), scale(timeline.seconds)),
        **_of_running(timeline),
        "start": start_part(commands(timeline)),
        "began": f"{timeline.began:.3f}",
        "seconds": f"{timeline.seconds:.3f}",
        "incidents": incidents_part(incidents[:MOST_INCIDENTS], max(0, len(incidents) - MOST_INCIDENTS)),
        "processes": processes_part(*process_rows(timeline)),
        **files(),
        "version": __version__,
    }


def _of_running(timeline: Timeline) -> Dict[str, object]:
    """Charts and stacks, for which nothing is loaded where there are none."""
    runs = [run for _, run in timeline.all_runs()]
    if not any(run.samples or run.stacks for run in runs):
        return {"charts": NOTHING, "stacks": NOTHING}

    drawn = charts_part(charts(timeline), marked(timeline), scale(timeline.seconds))
    return {"charts": drawn, "stacks": stacks_part(timeline)}


def _has_failure(node: NodeTimeline) -> bool:
    return any(process.role in (CAUSE, FOLLOWED) for run in node.runs for process in run.processes)


def _fitting(parts: Sequence[Html], order: Iterable[int], room: int) -> List[Html]:
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
