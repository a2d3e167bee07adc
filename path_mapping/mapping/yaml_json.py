"""Reads a mapping that is written as YAML or JSON."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Set, Tuple

from path_mapping.mapping.document import Items, Pairs, ScalarValue, Value, brief


def read_json(text: str, problems: List[str]) -> Optional[Value]:
    """The document; JSON's reader tells no lines."""
    try:
        return _of_json(json.loads(text, object_pairs_hook=_Object, parse_constant=_no_number))
    except json.JSONDecodeError as error:
        problems.append(f"line {error.lineno}: not JSON: {error.msg}")
    except (ValueError, RecursionError) as error:
        problems.append(f"not JSON: {error}")
    return None


class _Object(List[Tuple[str, Any]]):
    """The pairs of an object, told from a list."""


def _no_number(text: str) -> None:
    raise ValueError(f"found {text}, expected a number")


def _of_json(value: Any) -> Value:
    if isinstance(value, _Object):
        pairs = tuple((ScalarValue(None, repr(name), name), _of_json(item)) for name, item in value)
        return Pairs(None, brief(repr(dict(value))), pairs)
    shown = brief(repr(value))
    if isinstance(value, list):
        return Items(None, shown, tuple(map(_of_json, value)))
    return ScalarValue(None, shown, value)


def read_yaml(text: str, problems: List[str]) -> Optional[Value]:
    """The document, by the rules of `yaml.safe_load`; an alias is a problem, nobody needs one here."""
    import yaml  # slow to import, and few mappings are YAML

    loader = yaml.SafeLoader(text) if _printable(text, problems) else None
    if loader is None:
        return None
    try:
        root = loader.get_single_node()
        return ScalarValue(1, "nothing", None) if root is None else _of_yaml(root, loader, set(), problems)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(f"line {line}: not YAML: {error.problem}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(f"not YAML: {error}")
    finally:
        loader.dispose()
    return None


def _printable(text: str, problems: List[str]) -> bool:
    """False, and a problem, for characters that YAML does not allow: its reader raises when it is made."""
    import yaml

    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        problems.append(f"line {line}: not YAML: the character {found.group()!r}")
    return not found


def _of_yaml(node: Any, loader: Any, seen: Set[int], problems: List[str]) -> Value:
    import yaml

    line, shown = node.start_mark.line + 1, brief(_shown(node))
    if id(node) in seen:
        problems.append(f"line {line}: found an alias of this value, expected each value written out")
        return ScalarValue(line, shown, None)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        pairs = [
            (_of_yaml(name, loader, seen, problems), _of_yaml(item, loader, seen, problems))
            for name, item in node.value
        ]
        return Pairs(line, shown, tuple(pairs))
    if isinstance(node, yaml.SequenceNode):
        return Items(line, shown, tuple(_of_yaml(item, loader, seen, problems) for item in node.value))
    value = loader.construct_object(node)
    plain = isinstance(value, (str, int, float, type(None)))
    return ScalarValue(line, shown, value) if plain else Value(line, shown)  # a date, or bytes


def _shown(node: Any) -> str:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return repr(node.value) if node.tag.endswith(":str") else str(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
