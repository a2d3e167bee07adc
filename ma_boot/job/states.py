"""The states of a job on ModelArts, and the exit code that its end is. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

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
