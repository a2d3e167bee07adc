"""A path mapping with its absolute local paths below a node's directory: no sandbox shows the real ones."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from path_mapping.errors import MappingInvalid
from path_mapping.mapping import PathMapping, Route, read_mapping

_OPTIONS = ("include", "exclude", "interval", "shard", "delete", "checksum")


def mapping_of(path: Optional[str], placeholders: Mapping[str, str]) -> Optional[PathMapping]:
    """The mapping of a node; None without one, and for an invalid one, which the node itself will report."""
    if path is None or not os.path.exists(path):
        return None
    try:
        return read_mapping(Path(path), placeholders)
    except MappingInvalid:
        return None


def absolute_paths(mapping: PathMapping) -> Tuple[str, ...]:
    """The local paths that are absolute."""
    return tuple(route.local for route in (*mapping.inputs, *mapping.outputs) if os.path.isabs(route.local))


def rerooted(mapping: PathMapping, root: str) -> str:
    """The mapping as JSON, with every absolute local path below `root`."""
    return json.dumps(
        {"input": _section(mapping.inputs, root), "output": _section(mapping.outputs, root)}, indent=2
    )


def _section(routes: Sequence[Route], root: str) -> Dict[str, Any]:
    section: Dict[str, Any] = {}
    for route in routes:
        local = root + route.local if os.path.isabs(route.local) else route.local
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(route).items()
            if name in _OPTIONS and value
        }
        section[_escaped(local)] = {"obs": _escaped(str(route.remote)), "required": route.required, **options}
    return section


def _escaped(text: str) -> str:
    """The text with its braces doubled: single ones are placeholders in a mapping."""
    return text.replace("{", "{{").replace("}", "}}")


def rerooting_note(paths: Sequence[str]) -> str:
    """Tells the user which paths are elsewhere."""
    return "\n".join(
        [
            "absolute paths of the mapping are below each node's directory; a training that opens them by "
            "their real names does not find them (--sandbox bwrap shows them at their real paths):",
            *(f"  {path} is NODE{path}" for path in paths),
        ]
    )
