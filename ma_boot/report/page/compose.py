"""Composes the page of a job: computes the values of each section and renders the template.

Each section limits the number of its rows and the length of its texts, so that a job of any size has a page
that a browser opens at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ma_boot import __version__
from ma_boot.report.page.charts import charts_of, has_unread_metrics, legend_of as legend_of_metrics
from ma_boot.report.page.data import data_of
from ma_boot.report.page.head import (
    USEFUL_TIME,
    facts_of,
    head_of,
    is_time_folded,
    notices_of,
    useful_time,
)
from ma_boot.report.page.lanes import axis_of, lanes_of, legend_of
from ma_boot.report.page.tables import (
    COLLECTIVE_NAMES,
    INCIDENT_NAMES,
    PROCESS_NAMES,
    commands_of,
    incidents_of,
    logs_of,
    processes_of,
    stacks_of,
)
from ma_boot.report.page.template import page_template, style_and_scripts
from ma_boot.report.timeline.events import printable
from ma_boot.report.timeline.job_timeline import JobOutcome, Timeline

if TYPE_CHECKING:
    from ma_boot.report.page.starts import StartsSection


def page_text(timeline: Timeline, tails: Mapping[str, str], links: Mapping[str, str] | None = None) -> str:
    """Returns the whole page.

    `tails` are ends of logs, `links` the relative URLs of whole logs, both by file. The page loads nothing.
    Without a script it shows all that it has, in English; only search and copying need one.
    """
    tails = {file: printable(text) for file, text in tails.items()}
    name = timeline.program or timeline.job or "ma_boot"
    incidents, incidents_left = incidents_of(timeline)
    processes, each_process = processes_of(timeline)
    lanes, logs = lanes_of(timeline), logs_of(timeline, tails, links or {})
    return page_template().render(
        title=f"{name}: {_short_end(timeline.outcome)}",
        head=head_of(timeline, tails),
        facts=facts_of(timeline),
        time_name=USEFUL_TIME,
        time_spent=useful_time(timeline),
        is_time_folded=is_time_folded(timeline),
        notices=notices_of(timeline),
        stacks=stacks_of(timeline),
        starts=_starts(timeline),
        axis=axis_of(timeline.seconds),
        lanes=lanes,
        lanes_legend=list(legend_of(timeline)),
        lanes_left=len(timeline.nodes) - len(lanes),
        metrics=charts_of(timeline),
        metrics_legend=list(legend_of_metrics(timeline)),
        has_unread_metrics=has_unread_metrics(timeline),
        data=data_of(timeline),
        incident_names=INCIDENT_NAMES,
        incidents=incidents,
        incidents_left=incidents_left,
        process_names=PROCESS_NAMES,
        collective_names=COLLECTIVE_NAMES,
        processes=processes,
        each_process=each_process,
        logs=logs,
        logs_left=sum(1 for _ in timeline.last_processes()) - len(logs),
        commands=commands_of(timeline),
        began=f"{timeline.began:.3f}",
        seconds=f"{timeline.seconds:.3f}",
        version=__version__,
        **style_and_scripts(),
    )


def _starts(timeline: Timeline) -> StartsSection | None:
    """Returns the section on the starts of a job that has several."""
    if not timeline.starts.are_several:
        return None
    from ma_boot.report.page.starts import starts_section  # most jobs have one

    return starts_section(timeline.starts)


def _short_end(outcome: JobOutcome) -> str:
    """Returns the end of the job for the browser's tab."""
    if outcome.exit_code is None:
        return "end unknown"
    return f"exit code {outcome.exit_code}" + (", but a process failed" if outcome.doubt is not None else "")
