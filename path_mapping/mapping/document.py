"""A document as a tree of values that know their line, read from a Python literal, YAML or JSON."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, List, Tuple


class Value:
    """A value; an instance of this class itself has a type that no mapping has, such as a date.

    `line` counts from 1, and is None if the format's reader does not report it. `shown` is the start of the
    value as it is written, for messages.
    """

    def __init__(self, line: int | None, shown: str) -> None:
        self.line = line
        self.shown = shown[:60]

    def place(self, *names: str) -> str:
        """Returns the place of the value as the start of a message: `line 3: input: `."""
        where = [f"line {self.line}"] if self.line else []
        return "".join(f"{part}: " for part in (*where, *names))


class ScalarValue(Value):
    """A string, a number, true, false or null."""

    def __init__(self, line: int | None, shown: str, value: str | int | float | bool | None) -> None:
        super().__init__(line, shown)
        self.value = value


class ListValue(Value):
    """A list."""

    def __init__(self, line: int | None, shown: str, items: tuple[Value, ...]) -> None:
        super().__init__(line, shown)
        self.items = items


class DictValue(Value):
    """A dict with every pair that is written, so that duplicate keys can be found."""

    def __init__(self, line: int | None, shown: str, pairs: tuple[tuple[Value, Value], ...]) -> None:
        super().__init__(line, shown)
        self.pairs = pairs


VARIABLE = "PATH_MAPPING_CONFIG"


def read_literal(text: str, problems: list[str]) -> Value | None:
    """Returns the value of the only assignment; None, and a problem, without one or with other code.

    This is the file that X2MindSpore generates (x2ms_adapter/modelarts/path_mapping_config.py). Comments and
    a docstring are allowed.
    """
    try:
        assigned = _assigned(ast.parse(text), problems)
        return None if assigned is None else _value(assigned)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        problems.append(f"line {line}: not Python: {getattr(error, 'msg', error)}")
        return None


def _assigned(module: ast.Module, problems: list[str]) -> ast.expr | None:
    value: ast.expr | None = None
    for statement in module.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        name = _target(statement)
        if name != VARIABLE or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            problems.append(f"line {statement.lineno}: found other code, expected only {VARIABLE} = {{...}}")
        elif value is not None:
            problems.append(f"line {statement.lineno}: {VARIABLE} is assigned a second time")
        else:
            value = statement.value
    if value is None and not problems:
        problems.append(f"no {VARIABLE} = {{...}} found")
    return value


def _target(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _value(node: ast.expr) -> Value:
    line, shown = node.lineno, ast.unparse(node)
    if isinstance(node, ast.Dict):
        pairs = []
        for key, item in zip(node.keys, node.values):
            name = Value(item.lineno, "**") if key is None else _value(key)
            pairs.append((name, _value(item)))
        return DictValue(line, shown, tuple(pairs))
    if isinstance(node, (ast.List, ast.Tuple)):
        return ListValue(line, shown, tuple(map(_value, node.elts)))
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, type(None))):
        return ScalarValue(line, shown, node.value)
    return Value(line, shown)  # code: a call, a name, an f-string


# A number in JSON and YAML 1.2, but a string in YAML 1.1, which PyYAML reads.
_EXPONENT = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?[eE][+-]?\d+")
_COLLECTIONS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


def read_json(text: str, problems: list[str]) -> Value | None:
    """Returns the document, without line numbers; None, and a problem, if it is invalid."""
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


def _from_json(value: Any) -> Value:
    if isinstance(value, _Object):
        pairs = tuple((ScalarValue(None, repr(name), name), _from_json(item)) for name, item in value)
        return DictValue(None, repr(dict(value)), pairs)
    shown = repr(value)
    if isinstance(value, list):
        return ListValue(None, shown, tuple(map(_from_json, value)))
    return ScalarValue(None, shown, value)


def find_unprintable(text: str) -> re.Match[str] | None:
    """Finds the first character that YAML does not allow, such as a control character."""
    import yaml  # slow to import, and few mappings are YAML

    found: re.Match[str] | None = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return found


def read_yaml(text: str, problems: list[str]) -> Value | None:
    """Returns the document as `yaml.safe_load` does; None, and a problem, if it is invalid or has aliases."""
    import yaml  # as above

    unprintable = find_unprintable(text)
    # The loader would raise an error without a line when it is created.
    if unprintable:
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


def _from_yaml(node: Any, loader: Any, seen: set[int], problems: list[str]) -> Value:
    line, shown = node.start_mark.line + 1, _shown(node)
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
        value = float(value) if _is_exponential(node) else value
    except (ArithmeticError, AttributeError, LookupError, ValueError):  # what PyYAML's converters let through
        unread = ScalarValue(line, shown, None)
        expected = "expected a value of its tag, or quotes around it"
        problems.append(f"line {line}: not YAML: found {unread.shown}, {expected}")
        return unread
    if isinstance(value, (str, int, float, type(None))):
        return ScalarValue(line, shown, value)
    return Value(line, shown)  # a date, or bytes


def _is_exponential(node: Any) -> bool:
    """Tells whether a node is a number with an exponent, without quotes or a tag."""
    as_written = node.end_mark.index - node.start_mark.index == len(node.value)
    return as_written and bool(_EXPONENT.fullmatch(node.value))


def _shown(node: Any) -> str:
    if node.id == "scalar":
        is_text = node.tag.endswith(":str") and not _is_exponential(node)
        return repr(node.value) if is_text else str(node.value)
    return "a list" if node.id == "sequence" else "a dict"
