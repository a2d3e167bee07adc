"""Reads `PATH_MAPPING_CONFIG = {...}` as a literal: the file is parsed, never executed."""

from __future__ import annotations

import ast
from typing import List, Optional

from path_mapping.mapping.document import Items, Pairs, ScalarValue, Value, brief

VARIABLE = "PATH_MAPPING_CONFIG"


def read_literal(text: str, problems: List[str]) -> Optional[Value]:
    """The value of the one assignment; anything else that would be executed is a problem.

    That is the file which X2MindSpore generates (x2ms_adapter/modelarts/path_mapping_config.py). Beside the
    assignment it may hold comments and a docstring.
    """
    try:
        module = ast.parse(text)
        value = _assigned(module, problems)
        return None if value is None else _node(value)
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
        problems.append(f"no {VARIABLE} = {{...}} in it")
    return value


def _target(statement: ast.stmt) -> Optional[str]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _node(value: ast.expr) -> Value:
    line, shown = value.lineno, brief(ast.unparse(value))
    if isinstance(value, ast.Dict):
        pairs = []
        for key, item in zip(value.keys, value.values):
            name = Value(item.lineno, "**") if key is None else _node(key)
            pairs.append((name, _node(item)))
        return Pairs(line, shown, tuple(pairs))
    if isinstance(value, (ast.List, ast.Tuple)):
        return Items(line, shown, tuple(_node(item) for item in value.elts))
    if isinstance(value, ast.Constant) and isinstance(value.value, (str, int, float, type(None))):
        return ScalarValue(line, shown, value.value)
    return Value(line, shown)  # code: a call, a name, an f-string
