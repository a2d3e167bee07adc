"""Documents and messages use the words of the field: what a colleague would say, not a literal translation."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator, Tuple

import pytest

from tests.unit.project.imports import ROOT, SOURCES, tree
from tests.unit.project.test_documents import CHINESE, DOCUMENTS

PAGES = [path for path in DOCUMENTS if path not in CHINESE]
INSTEAD = {
    r"stands? still": "stalls",
    r"goes on from|go on from": "resumes from",
    r"beg[iu]ns? anew|starts? anew": "starts again, starts from the beginning",
    r"anew": "again",
    r"alike": "the same",
    r"(is|are|there is) none(?! of)": "name the thing: is not a rank table, has no files",
    r"(is|are|must be|was) (that|those) of": "name the thing: is the endpoint of",
    r"than that of": "than the endpoint of",
    r"what is there": "the files, the sets",
    r"(is|are) to be (seen|had)": "is visible, is available",
    r"is told nothing": "learns nothing",
    r"is asked for": "is requested",
    r"(is|was) had": "is available",
    r"lets? go of": "releases",
    r"no whole number": "is not a whole number",
    r"valid integer range": "a whole number from 1 to 1024",
    r"the next one after": "skipped",
    r"brings? home|brought home": "uploads",
    r"so-called": "leave it out",
    r"it is to be noted|please note": "leave it out",
    r"in order to": "to",
    r"utili[sz]e": "use",
    r"adviced|informations|softwares|datas|equipments": "a mistake of grammar",
}


def wrong(text: str) -> Iterator[Tuple[str, str]]:
    """The words of a text that have a better one, with it."""
    for pattern, better in INSTEAD.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield text[max(match.start() - 30, 0) : match.end() + 30], better


def messages(path: Path) -> Iterator[Tuple[int, str]]:
    """The texts of a source that people can read when it runs, with their lines; no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_says_it_as_a_colleague_would(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert list(wrong(prose)) == []


def test_a_message_says_it_as_a_colleague_would() -> None:
    findings = [
        (str(path.relative_to(ROOT)), line, *words)
        for path in SOURCES
        for line, text in messages(path)
        for words in wrong(text)
    ]
    assert findings == []
