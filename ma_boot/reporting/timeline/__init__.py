"""The events of a job's nodes as one `Timeline`: values, from whatever events there are."""

from ma_boot.reporting.timeline.events import Event, EventFile, printable, read_events
from ma_boot.reporting.timeline.job_timeline import (
    CAUSE,
    FOLLOWED,
    STOPPED,
    WELL,
    BootRun,
    HangStacks,
    Incident,
    JobOutcome,
    Measurement,
    NodeTimeline,
    PhaseSpan,
    PlaceOfData,
    ProcessSpan,
    StackGroup,
    Timeline,
    TransferSpan,
)
from ma_boot.reporting.timeline.merge import job_names, timeline_of

__all__ = [
    "CAUSE",
    "FOLLOWED",
    "STOPPED",
    "WELL",
    "BootRun",
    "Event",
    "EventFile",
    "HangStacks",
    "Incident",
    "JobOutcome",
    "Measurement",
    "NodeTimeline",
    "PhaseSpan",
    "PlaceOfData",
    "ProcessSpan",
    "StackGroup",
    "Timeline",
    "TransferSpan",
    "job_names",
    "printable",
    "read_events",
    "timeline_of",
]
