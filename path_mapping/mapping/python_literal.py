"""Reads a mapping from `PATH_MAPPING_CONFIG = {...}`: the file is parsed, never executed."""

from __future__ import annotations

import ast
from typing import List, Optional

from path_mapping.mapping.document import DictValue, ListValue, ScalarValue, Value, brief

VARIABLE = "PATH_MAPPING_CONFIG"


def read_literal(text: str, problems: List[str]) -> Optional[Value]:
    """The value of the one assignment; None, and a problem, without it or with other code beside it.

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


def _assigned(module: ast.Module, problems: List[str]) -> Optional[ast.expr]:
    value: Optional[ast.expr] = None
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


def _target(statement: ast.stmt) -> Optional[str]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _value(node: ast.expr) -> Value:
    line, shown = node.lineno, brief(ast.unparse(node))
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
