"""Creates a job exactly once, and finds jobs by their id or name."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Set

from ma_boot.errors import InputMissing, StoreUnavailable
from ma_boot.job import state_of
from ma_boot.job_service.api import JobApi, ServiceBusy

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOOKS = 4  # for a job that may have been created by a request without an answer


def created(
    api: JobApi, body: Mapping[str, Any], say: Callable[[str], None], pause: Callable[[float], None]
) -> Dict[str, Any]:
    """Creates the job; returns its details.

    The request is sent once: where no answer came, the job may be there all the same, and it is looked for.

    Raises:
        StoreUnavailable: it is not known whether the job was created.
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
