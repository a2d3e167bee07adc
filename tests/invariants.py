"""`python -m tests.invariants`: writes docs/invariants.md, the rules that must not break, from markers of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "invariants.md"
HEAD = """\
# Rules that must not break

Each has tests that carry it as a marker, `@pytest.mark.invariant("...")`. `python -m tests.invariants` writes this page.

| rule | tests |
|---|---|
"""


def marked_tests() -> Iterator[tuple[str, str]]:
    """Yields the rules with the names of their tests, in the order of the files."""
    for file in sorted(ROOT.glob("tests/**/test_*.py")):
        text = file.read_text()
        if "mark.invariant" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.invariant":
                    yield ast.literal_eval(decorator.args[0]), node.name


def page() -> str:
    """Returns the text of the page."""
    tests: dict[str, list[str]] = {}
    for rule, test in marked_tests():
        tests.setdefault(rule, []).append(f"`{test}`")
    return HEAD + "".join(f"| {rule} | {', '.join(names)} |\n" for rule, names in sorted(tests.items()))


if __name__ == "__main__":
    PAGE.write_text(page())
