"""Reads a path mapping from its file: Python literal, YAML or JSON, by the file's suffix."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import List, Mapping

from path_mapping.errors import MappingInvalid
from path_mapping.mapping.overlaps import overlaps
from path_mapping.mapping.routes import PathMapping
from path_mapping.mapping.schema import mapping_of
from path_mapping.mapping.yaml_json import read_json, read_yaml

_READERS = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}


def read_mapping(path: Path, placeholders: Mapping[str, str] = MappingProxyType({})) -> PathMapping:
    """The mapping in a file; `placeholders` has the values of the placeholders.

    Raises:
        MappingInvalid: The file cannot be read, or has mistakes: all of them.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise MappingInvalid(str(path), [f"the file cannot be read: {error}"]) from error
    return parse_mapping(text, str(path), placeholders)


def parse_mapping(
    text: str, source: str, placeholders: Mapping[str, str] = MappingProxyType({})
) -> PathMapping:
    """The mapping in `{'input': {local: obs}, 'output': {local: obs}}`.

    Each `obs` is a URL, or a dict with the URL as `obs` and the options of `Route`. The suffix of `source`
    decides the format: .yaml and .yml, .json, else Python with the assignment `PATH_MAPPING_CONFIG = {...}`.

    Raises:
        MappingInvalid: The text has mistakes: all of them, each with its place.
    """
    problems: List[str] = []
    suffix = Path(source).suffix.lower()
    if suffix in _READERS:
        root, title = _READERS[suffix](text, problems), "the document"
    else:
        from path_mapping.mapping.python_literal import VARIABLE, read_literal  # `ast` is slow to import

        root, title = read_literal(text, problems), VARIABLE
    mapping = mapping_of(root, title, placeholders, problems) if root is not None else PathMapping((), ())
    problems += overlaps(mapping)
    if problems:
        raise MappingInvalid(source, problems)
    return mapping
