"""Reads and checks the mapping file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from path_mapping.mapping.overlaps import overlaps
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route
from path_mapping.mapping.selection import Shard, pattern_problem, selected, sharer
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from path_mapping.mapping.document import DictValue, ListValue, ScalarValue, Value
    from path_mapping.mapping.mapping_file import read_mapping
    from path_mapping.mapping.yaml_json import read_yaml
else:  # a transfer needs routes, wherever they come from
    __getattr__ = when_used(
        __name__,
        {
            "document": ("DictValue", "ListValue", "ScalarValue", "Value"),
            "mapping_file": ("read_mapping",),
            "yaml_json": ("read_yaml",),
        },
    )

__all__ = [
    "DictValue",
    "ListValue",
    "ObsUrl",
    "PathMapping",
    "Route",
    "ScalarValue",
    "Shard",
    "Value",
    "overlaps",
    "pattern_problem",
    "read_mapping",
    "read_yaml",
    "selected",
    "sharer",
]
