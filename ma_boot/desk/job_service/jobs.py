"""Creates a job exactly once, finds jobs by id or name, and reads their states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Callable

from ma_boot.desk.job.request import MARK
from ma_boot.desk.job_service.api import AnswerOdd, JobApi, ServiceBusy
from ma_boot.errors import BootError, InputMissing, StoreUnavailable
from ma_boot.redact import without_secrets
from ma_boot.report.timeline.all_starts import PlatformTimes

STATES = ("Creating", "Pending", "Running", "Terminating", "Completed", "Failed", "Terminated", "Abnormal")
ENDED = {"Completed", "Failed", "Terminated", "Abnormal"}
MAY_BE_STOPPED = {"Creating", "Pending", "Running"}


def state_of(details: Mapping[str, Any]) -> str:
    """Returns the state of a job; a question mark if the answer has none."""
    return details["status"]["phase"] or "?"


def stages_of(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns the stages of the job's last start that have begun, in order: identity and text of each."""
    newest: Mapping[str, Any] = max(
        records, key=lambda record: record["record_order"] or 0, default={"stages": []}
    )
    begun: list[tuple[str, str]] = []
    for stage in sorted(newest["stages"], key=lambda stage: stage["stage_order"] or 0):
        name = stage["name"] or "?"
        parts = [part for part in stage["sub_stages"] if part["create_time"]]
        if stage["start_time"] or parts:
            begun.append((f"{newest['record_order']} {name}", _in_words(name, stage)))
        for part in parts:
            text = f"{name}: {part['name'] or '?'}"
            begun.append((f"{newest['record_order']} {text} {part['create_time']}", _in_words(text, part)))
    return begun


def _in_words(name: str, stage: Mapping[str, Any]) -> str:
    text = " ".join((stage["en_message"] or "").split())
    return f"{name}: {text}" if text and text != name else name


def platform_times(details: Mapping[str, Any]) -> PlatformTimes:
    """Returns the times of the job's starts as the platform knows them."""
    created = (details["metadata"]["create_time"] or 0) / 1000
    records = ((record["start_at"], record["end_at"]) for record in details["status"]["running_records"])
    return PlatformTimes(created, tuple((float(start), float(end or 0)) for start, end in records if start))


def exit_code_of(details: Mapping[str, Any]) -> int:
    """Returns the exit code of a job that has ended.

    0 for success, the code of the first failed task (1 if unknown), 143 for a stop, 69 if the platform lost
    it.
    """
    state = state_of(details)
    if state == "Failed":
        codes = [task["exit_code"] or 0 for task in details["status"]["task_statuses"]]
        return next((code for code in codes if 0 < code < 256), 1)
    return {"Completed": 0, "Terminated": 143}.get(state, 69)


def cause_of(details: Mapping[str, Any]) -> str:
    """Returns the first failed task and the last line of its message; empty if unknown."""
    for task in details["status"]["task_statuses"]:
        lines = [line for line in (task["message"] or "").splitlines() if line.strip()]
        message = f": {without_secrets(lines[-1].strip())[:200]}" if lines else ""
        return f"{task['task'] or 'a task'} ended with {task['exit_code']}{message}"
    return ""


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Number of searches for a job after a request without an answer; the list may lag behind.
_ATTEMPTS = 4
# Number of newest jobs of the name among which the job is searched.
_NEWEST = 5


def create_job(
    api: JobApi, body: Mapping[str, Any], say: Callable[[str], None], pause: Callable[[float], None]
) -> str:
    """Creates the job exactly once and returns its id.

    The request is not retried: without an answer, the job may exist nevertheless, and is searched for.
    Raises `StoreUnavailable` if it is not known whether the job was created.
    """
    try:
        return api.create(body)
    except (ServiceBusy, AnswerOdd) as error:
        say(f"{error}; looking whether the job was created all the same")
        for attempt in range(_ATTEMPTS):
            pause(2.0**attempt)
            job = find_created_job(api, body)
            if job:
                return job
        raise StoreUnavailable(f"{error}\nNo job of this request was found; {may_appear(body)}") from error


def may_appear(body: Mapping[str, Any]) -> str:
    """Tells the user where to look for a job that may have been created."""
    metadata = body["metadata"]
    workspace = f"MODELARTS_WORKSPACE={metadata['workspace_id']} " if metadata.get("workspace_id") else ""
    mark = body["algorithm"]["environments"][MARK]
    return (
        f"it may still appear: {workspace}ma_boot job list --name {metadata['name']}; in its details its "
        f"variable {MARK} is {mark}"
    )


def find_created_job(api: JobApi, body: Mapping[str, Any]) -> str:
    """Returns the id of the job with this request's value of `MARK`; empty if it is not listed."""
    metadata, mark = body["metadata"], body["algorithm"]["environments"][MARK]
    with suppress(BootError):  # it is looked for again
        for job in jobs_of_name(api, metadata["name"], metadata.get("workspace_id", ""))[:_NEWEST]:
            job_id = str(job["metadata"]["id"])
            variables = job["algorithm"]["environments"] or api.details(job_id)["algorithm"]["environments"]
            if mark in str(variables):
                return job_id
    return ""


def jobs_of_name(api: JobApi, name: str, workspace: str | None = None) -> list[dict[str, Any]]:
    """Returns the jobs of exactly this name, the newest first."""
    jobs = api.search([{"key": "name", "operator": "in", "value": [name]}], 50, workspace)
    return [job for job in jobs if job["metadata"]["name"] == name]


def job_id(api: JobApi, reference: str) -> str:
    """Returns the id of a job given by id or name; of several, the newest. Raises `InputMissing`."""
    if _ID.fullmatch(reference):
        return reference
    jobs = jobs_of_name(api, reference)
    if not jobs:
        here = api.access.workspace or "the default one"
        raise InputMissing(
            f"{reference}: no job of this name, and no id of one; ma_boot job list shows those of the "
            f"workspace, which MODELARTS_WORKSPACE names: {here}"
        )
    return str(jobs[0]["metadata"]["id"])


def row_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of `job list` for a job."""
    metadata = job["metadata"]
    return {
        "id": metadata["id"],
        "name": metadata["name"],
        "state": state_of(job),
        "created": metadata["create_time"],
        "seconds": (job["status"]["duration"] or 0) // 1000,
        "nodes": job["spec"]["resource"]["node_count"],
    }
