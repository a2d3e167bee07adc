"""Creates a job exactly once, finds jobs by id or name, and says what state they are in."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set, Tuple

from ma_boot.errors import InputMissing, StoreUnavailable
from ma_boot.job_service.api import JobApi, ServiceBusy
from ma_boot.redact import without_secrets

STATES = ("Creating", "Pending", "Running", "Terminating", "Completed", "Failed", "Terminated", "Abnormal")
ENDED = {"Completed", "Failed", "Terminated", "Abnormal"}
MAY_BE_STOPPED = {"Creating", "Pending", "Running"}

FINISHED, STOPPED, LOST = 0, 143, 69


def state_of(details: Mapping[str, Any]) -> str:
    """The state of a job; a question mark if the answer has none."""
    return str((details.get("status") or {}).get("phase") or "?")


def stages_of(records: Sequence[Mapping[str, Any]]) -> List[Tuple[str, str]]:
    """The stages of a job's last start that have begun, in their order: an identity, and what is shown."""
    newest = max(records, key=lambda one: int(one.get("record_order") or 0), default={})
    found: List[Tuple[str, str]] = []
    for stage in sorted(newest.get("stages") or [], key=lambda one: int(one.get("stage_order") or 0)):
        name = str(stage.get("name") or "?")
        parts = [one for one in stage.get("sub_stages") or [] if one.get("create_time")]
        if stage.get("start_time") or parts:
            found.append((f"{newest.get('record_order')} {name}", _said(name, stage)))
        for part in parts:
            what = f"{name}: {part.get('name') or '?'}"
            found.append((f"{newest.get('record_order')} {what} {part['create_time']}", _said(what, part)))
    return found


def _said(name: str, stage: Mapping[str, Any]) -> str:
    text = " ".join(str(stage.get("en_message") or "").split())
    return f"{name}: {text}" if text and text != name else name


def exit_code_of(details: Mapping[str, Any]) -> int:
    """The exit code of a job that has ended: 0, that of the first task that failed (1 if none is known), 143
    for a stop, 69 if the platform has lost it."""
    state = state_of(details)
    if state == "Failed":
        for task in (details.get("status") or {}).get("task_statuses") or []:
            code = task.get("exit_code")
            if isinstance(code, int) and 0 < code < 256:
                return code
        return 1
    return {"Completed": FINISHED, "Terminated": STOPPED}.get(state, LOST)


def cause_of(details: Mapping[str, Any]) -> str:
    """The first task that failed, and the last line of what it said; empty if none is known."""
    for task in (details.get("status") or {}).get("task_statuses") or []:
        lines = [line for line in str(task.get("message") or "").splitlines() if line.strip()]
        said = f": {without_secrets(lines[-1].strip())[:200]}" if lines else ""
        return f"{task.get('task', 'a task')} ended with {task.get('exit_code')}{said}"
    return ""


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOOKS = 4  # for a job that may have been created by a request without an answer


def created(
    api: JobApi, body: Mapping[str, Any], say: Callable[[str], None], pause: Callable[[float], None]
) -> Dict[str, Any]:
    """Creates the job; returns its details.

    The request is sent once: where no answer came, the job may be there all the same, and it is looked for.
    Raises `StoreUnavailable` if it is not known whether the job was created.
    """
    name = str(body["metadata"]["name"])
    before = _ids(api, name)
    try:
        return api.create(body)
    except ServiceBusy as error:
        say(f"{error}; looking whether the job was created all the same")
        for look in range(_LOOKS):
            pause(2.0**look)
            try:
                new = _ids(api, name) - before
            except ServiceBusy:
                continue
            if new:
                return api.details(new.pop())
        raise StoreUnavailable(
            f"{error}\nNo new job of the name {name} was found; it may still appear: "
            f"ma_boot job list --name {name}"
        ) from error


def _ids(api: JobApi, name: str) -> Set[str]:
    return {str(job["metadata"]["id"]) for job in of_name(api, name)}


def of_name(api: JobApi, name: str) -> List[Dict[str, Any]]:
    """The jobs of exactly this name, the newest first."""
    found = api.search([{"key": "name", "operator": "in", "value": [name]}], 50)
    return [job for job in found if (job.get("metadata") or {}).get("name") == name]


def job_id(api: JobApi, reference: str) -> str:
    """The id of a job that is named by its id, or by its name: the newest one. Raises `InputMissing`."""
    if _ID.fullmatch(reference):
        return reference
    found = of_name(api, reference)
    if not found:
        raise InputMissing(f"{reference}: no job of this name, and no id of one; ma_boot job list shows them")
    return str(found[0]["metadata"]["id"])


def row_of(job: Mapping[str, Any]) -> Dict[str, Any]:
    """What a list shows of a job."""
    metadata, status = job.get("metadata") or {}, job.get("status") or {}
    resource = (job.get("spec") or {}).get("resource") or {}
    return {
        "id": metadata.get("id"),
        "name": metadata.get("name"),
        "state": state_of(job),
        "created": metadata.get("create_time"),
        "seconds": (status.get("duration") or 0) // 1000,
        "nodes": resource.get("node_count"),
    }
