"""Reads a path mapping from its file: Python literal, YAML or JSON, by the file's suffix."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import List, Mapping

from path_mapping.errors import MappingInvalid
from path_mapping.mapping.overlaps import overlaps
from path_mapping.mapping.python_literal import VARIABLE, read_literal
from path_mapping.mapping.routes import PathMapping
from path_mapping.mapping.schema import mapping_of
from path_mapping.mapping.yaml_json import read_json, read_yaml

_READERS = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}
NOTHING: Mapping[str, str] = MappingProxyType({})


def read_mapping(path: Path, places: Mapping[str, str] = NOTHING) -> PathMapping:
    """The mapping in a file; raises `MappingInvalid`, also for a file that cannot be read.

    `places` has the values of the placeholders.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise MappingInvalid(str(path), [f"the file cannot be read: {error}"]) from error
    return parse_mapping(text, str(path), places)


def parse_mapping(text: str, source: str, places: Mapping[str, str] = NOTHING) -> PathMapping:
    """The mapping in `{'input': {local: obs}, 'output': {local: obs}}`, raises `MappingInvalid`.

    Each value is a URL, or a mapping of `obs` and the options of `Route`. A source that ends in .yaml, .yml
    or .json is that; any other is Python with the one assignment `PATH_MAPPING_CONFIG = {...}`. Every mistake
    is told at once, with its place.
    """
    problems: List[str] = []
    suffix = Path(source).suffix.lower()
    root = _READERS.get(suffix, read_literal)(text, problems)
    title = "the document" if suffix in _READERS else VARIABLE
    mapping = mapping_of(root, title, places, problems) if root is not None else PathMapping((), ())
    problems += overlaps(mapping)
    if problems:
        raise MappingInvalid(source, problems)
    return mapping
