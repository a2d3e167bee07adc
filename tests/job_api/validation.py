"""What the API would refuse: fields that the SDK's models do not have, and documented limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

LIMITS = {
    "metadata.name": r"[A-Za-z0-9_-]{1,64}",
    "metadata.description": r".{0,256}",
    "algorithm.engine.image_url": r"[a-z][a-z0-9._-]*/[a-z0-9._/-]+:[\w.-]{1,128}",
    "algorithm.command": r"[^\r\n]+",
    "algorithm.code_dir": r"/[a-z0-9.-]+/(.+/)?",
}


def unknown_fields(kind: str, value: Any, where: str = "body") -> tuple[str, ...]:
    """The fields of a value that its model of the SDK does not have."""
    from huaweicloudsdkmodelarts.v1 import model

    if kind.startswith("list["):
        return tuple(field for item in value for field in unknown_fields(kind[5:-1], item, where))
    types = getattr(getattr(model, kind, None), "openapi_types", None)
    if types is None:
        return ()
    names = {json: types[name] for name, json in getattr(model, kind).attribute_map.items()}
    unknown: tuple[str, ...] = ()
    for name, item in value.items():
        field = f"{where}.{name}"
        unknown += unknown_fields(names[name], item, field) if name in names else (field,)
    return unknown


def refusals(body: dict[str, Any]) -> Iterator[str]:
    """Why a job would not be created."""
    from huaweicloudsdkmodelarts.v1 import model

    yield from unknown_fields(model.CreateTrainingJobRequest.openapi_types["body"], body)
    for path, rule in LIMITS.items():
        value: Any = body
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        if not re.fullmatch(rule, value) and (value or path != "metadata.description"):
            yield f"{path}: {value!r}"
    environments = body["algorithm"].get("environments", {})
    if len(environments) > 100 or any(not isinstance(value, str) for value in environments.values()):
        yield "algorithm.environments"
    if any(name.startswith("MA_") for name in environments):
        yield "algorithm.environments: reserved"
    resource = body["spec"]["resource"]
    if not isinstance(resource.get("node_count"), int) or not resource.get("flavor_id"):
        yield "spec.resource"
