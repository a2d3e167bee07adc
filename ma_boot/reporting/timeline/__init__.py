"""The events of a job's nodes as one `Timeline`: values, from whatever events there are. Pure."""

from ma_boot.reporting.timeline.boot_run import job_cause as job_cause
from ma_boot.reporting.timeline.events import (
    MEASURED as MEASURED,
    Event as Event,
    EventFile as EventFile,
    printable as printable,
    read_events as read_events,
    whole as whole,
    words as words,
)
from ma_boot.reporting.timeline.job_timeline import (
    BootRun as BootRun,
    HangStacks as HangStacks,
    Incident as Incident,
    JobOutcome as JobOutcome,
    Measurement as Measurement,
    NodeTimeline as NodeTimeline,
    PhaseSpan as PhaseSpan,
    PlaceOfData as PlaceOfData,
    ProcessSpan as ProcessSpan,
    StackGroup as StackGroup,
    Timeline as Timeline,
    TransferSpan as TransferSpan,
)
from ma_boot.reporting.timeline.merge import job_names as job_names, timeline_of as timeline_of
from ma_boot.reporting.timeline.time_spent import COUNTED as COUNTED, time_spent as time_spent
