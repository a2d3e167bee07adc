"""Reads a mapping from YAML or JSON."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Set, Tuple

from path_mapping.mapping.document import DictValue, ListValue, ScalarValue, Value, brief

_COLLECTIONS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


def read_json(text: str, problems: List[str]) -> Optional[Value]:
    """The document, without lines, which the JSON reader does not report; None, and a problem, if invalid."""
    try:
        return _from_json(json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse_constant))
    except json.JSONDecodeError as error:
        problems.append(f"line {error.lineno}: not JSON: {error.msg}")
    except (ValueError, RecursionError) as error:
        problems.append(f"not JSON: {error}")
    return None


class _Object(List[Tuple[str, Any]]):
    """The pairs of an object, as a type other than list."""


def _refuse_constant(text: str) -> None:
    raise ValueError(f"found {text}, expected a number")


def _from_json(found: Any) -> Value:
    if isinstance(found, _Object):
        pairs = tuple((ScalarValue(None, repr(name), name), _from_json(item)) for name, item in found)
        return DictValue(None, brief(repr(dict(found))), pairs)
    shown = brief(repr(found))
    if isinstance(found, list):
        return ListValue(None, shown, tuple(map(_from_json, found)))
    return ScalarValue(None, shown, found)


def read_yaml(text: str, problems: List[str]) -> Optional[Value]:
    """The document as by `yaml.safe_load`; None, and a problem, if invalid. Aliases are problems, too."""
    import yaml  # slow to import, and few mappings are YAML

    unprintable = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if unprintable:  # the loader would raise when it is created
        line = text.count("\n", 0, unprintable.start()) + 1
        problems.append(f"line {line}: not YAML: the character {unprintable.group()!r}")
        return None
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        return ScalarValue(1, "nothing", None) if root is None else _from_yaml(root, loader, set(), problems)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(f"line {line}: not YAML: {error.problem}")
    except RecursionError:
        problems.append(f"line {loader.line + 1}: not YAML: nested too deeply")
    except yaml.YAMLError as error:
        problems.append(f"not YAML: {error}")
    finally:
        loader.dispose()
    return None


def _from_yaml(node: Any, loader: Any, seen: Set[int], problems: List[str]) -> Value:
    line, shown = node.start_mark.line + 1, brief(_shown(node))
    if id(node) in seen:
        problems.append(f"line {line}: found an alias of this value, expected each value written out")
        return ScalarValue(line, shown, None)
    seen.add(id(node))
    if node.id != "scalar" and node.tag not in _COLLECTIONS:
        problems.append(f"line {line}: found the tag {node.tag}, expected none")
    if node.id == "mapping":
        pairs = [
            (_from_yaml(name, loader, seen, problems), _from_yaml(item, loader, seen, problems))
            for name, item in node.value
        ]
        return DictValue(line, shown, tuple(pairs))
    if node.id == "sequence":
        items = [_from_yaml(item, loader, seen, problems) for item in node.value]
        return ListValue(line, shown, tuple(items))
    try:
        value = loader.construct_object(node)
    except (ArithmeticError, AttributeError, LookupError, ValueError):  # what PyYAML's converters let through
        problems.append(
            f"line {line}: not YAML: found {shown}, expected a value of its tag, or quotes around it"
        )
        return ScalarValue(line, shown, None)
    if isinstance(value, (str, int, float, type(None))):
        return ScalarValue(line, shown, value)
    return Value(line, shown)  # a date, or bytes


def _shown(node: Any) -> str:
    if node.id == "scalar":
        return repr(node.value) if node.tag.endswith(":str") else str(node.value)
    return "a list" if node.id == "sequence" else "a dict"
