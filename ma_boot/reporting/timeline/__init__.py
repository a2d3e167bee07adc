"""The events of a job's nodes as one `Timeline`: values, from whatever events there are."""

from ma_boot.reporting.timeline.events import EventFile, read_events
from ma_boot.reporting.timeline.job_timeline import (
    CAUSE,
    FOLLOWED,
    STOPPED,
    UNKNOWN,
    WELL,
    BootRun,
    Incident,
    JobOutcome,
    NodeTimeline,
    PhaseSpan,
    ProcessSpan,
    Timeline,
    TransferSpan,
)
from ma_boot.reporting.timeline.merge import job_names, timeline_of

__all__ = [
    "CAUSE",
    "FOLLOWED",
    "STOPPED",
    "UNKNOWN",
    "WELL",
    "BootRun",
    "EventFile",
    "Incident",
    "JobOutcome",
    "NodeTimeline",
    "PhaseSpan",
    "ProcessSpan",
    "Timeline",
    "TransferSpan",
    "job_names",
    "read_events",
    "timeline_of",
]
