"""The result of a job as one JSON document, with the facts of the text report. Pure.

The keys are stable: new ones may be added, and `format` changes if one is removed or changes its meaning.
"""

from __future__ import annotations

from typing import Any

from ma_boot.redact import masked
from ma_boot.report.hints import hints_for
from ma_boot.report.page.head import missing_nodes
from ma_boot.report.page.read import JobPage
from ma_boot.report.timeline.all_starts import starts_document
from ma_boot.report.timeline.job_timeline import NodeTimeline, ProcessSpan
from ma_boot.report.timeline.time_spent import COUNTED, time_spent

FORMAT = 1


def job_document(page: JobPage) -> dict[str, Any]:
    """Returns the result of the job of a page, without secrets."""
    timeline = page.timeline
    outcome, spent = timeline.outcome, {use: round(each, 3) for use, each in time_spent(timeline).items()}
    cause, doubt = outcome.named, outcome.doubt
    document = {
        "format": FORMAT,
        "job": timeline.job,
        "program": timeline.program,
        "end": page.end,
        "exit_code": outcome.exit_code,
        "by": outcome.by or None,
        "cause": cause.fields() if cause is not None else None,
        "words": outcome.words,
        "doubt": doubt.fields() if doubt is not None else None,
        "advice": [*map(str, hints_for(page.tail))] if outcome.exit_code else [],
        "restarts": [incident.text for incident in timeline.restarts],
        "all_starts": starts_document(timeline.starts),
        "useful_node_time": {
            "useful": spent[COUNTED],
            "paid": round(sum(spent.values()), 3),
            "seconds_by_use": spent,
        },
        "nodes": [_node(node) for node in timeline.nodes],
        "nodes_without_events": missing_nodes(timeline),
    }
    shown: dict[str, Any] = masked(document)
    return shown


def _node(node: NodeTimeline) -> dict[str, Any]:
    last = node.last
    return {
        "node": node.number,
        "host": last.host,
        "starts": len(node.runs),
        "exit_code": last.exit_code,
        "by": last.by or None,
        "software": dict(last.software),
        "processes": [_process(process) for process in last.latest],
    }


def _process(process: ProcessSpan) -> dict[str, Any]:
    seconds = None if process.end is None else round(process.end - process.start, 3)
    return {
        "label": process.label,
        "rank": process.rank,
        "exit_code": process.code,
        "signal": process.signal,
        "seconds": seconds,
        "role": process.role,
        "out_of_memory": process.oom,
        "log_file": process.log_file,
    }
