"""The fields read from ModelArts' answers and their types; values of other types are left out. Pure."""

from __future__ import annotations

from typing import Any, Callable

_PART = {"name": str, "en_message": str, "create_time": str}
_STAGE = {"name": str, "stage_order": int, "en_message": str, "start_time": str, "sub_stages": [_PART]}
_CARDS = {"unit_num": int}

JOB: dict[str, Any] = {
    "metadata": {"id": str, "name": str, "create_time": int},
    "algorithm": {"environments": object},
    "spec": {"resource": {"node_count": int}, "log_export_path": {"obs_url": str}},
    "status": {
        "phase": str,
        "duration": int,
        "tasks": [str],
        "task_statuses": [{"task": str, "exit_code": int, "message": str}],
        "running_records": [{"start_at": int, "end_at": int}],
    },
}
JOBS = {"items": [JOB]}
NAME = {"is_duplicate": bool}
FLAVORS = {
    "flavors": [
        {"flavor_id": str, "max_num": int, "flavor_info": {"max_num": int, "npu": _CARDS, "gpu": _CARDS}}
    ]
}
QUOTAS = {"quotas": [{"resource": str, "quota": int, "used": int}]}
EVENTS = {"events": [{"time": str, "source": str, "level": str, "message": str}]}
STAGES = {"running_records": [{"record_order": int, "stages": [_STAGE]}]}
LINES = {"content": str, "lines": int, "start_line": str, "end_line": str}

_EXPECTED = {dict: "fields", list: "a list", str: "a text", int: "a number", bool: "true or false"}


def select_fields(value: Any, shape: Any, place: str, left_out: Callable[[str], None]) -> Any:
    """Returns the parts of an answer that `shape` describes: dicts and lists always, other values or None.

    `left_out` is called for each value of another type; digits in quotes are a number.
    """
    kind = shape if isinstance(shape, type) else type(shape)
    known = _of_kind(value, kind)
    if known is None and value is not None:
        left_out(f"{place}: found {value!r}, expected {_EXPECTED[kind]}")
    if kind is dict:
        fields = known or {}
        return {
            name: select_fields(fields.get(name), part, f"{place}.{name}".lstrip("."), left_out)
            for name, part in shape.items()
        }
    if kind is list:
        item_kind = shape[0] if isinstance(shape[0], type) else type(shape[0])
        for item in (items := known or []):
            if _of_kind(item, item_kind) is None:
                left_out(f"{place}: found {item!r}, expected {_EXPECTED[item_kind]}")
        fit = [item for item in items if _of_kind(item, item_kind) is not None]
        return [select_fields(item, shape[0], place, left_out) for item in fit]
    return known


def _of_kind(value: Any, kind: type) -> Any:
    """Returns the value if it has this type, else None."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 63
    digits = isinstance(value, str) and value.isdecimal() and len(value) < 19
    if kind is int:
        return int(value) if number or digits else None
    if kind is str and number:
        return str(value)
    return value if isinstance(value, kind) else None
