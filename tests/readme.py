"""What the README shows: its commands, and what they print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

README = Path(__file__).parents[1] / "README.md"


def blocks(title: str, kind: str = "sh") -> List[str]:
    """The commands of a chapter; blocks of what they print have no kind."""
    chapter = re.split(r"^## ", README.read_text(), flags=re.MULTILINE)
    (found,) = [part for part in chapter if part.startswith(title + "\n")]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", found, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == kind]


def not_printed(title: str, output: str) -> List[str]:
    """The lines that a chapter shows as printed, and that are not, whatever their numbers and `...` are."""
    lines = [line for block in blocks(title, "") for line in block.splitlines()]
    assert lines
    end = r"( \(.* MB/s\))?$"  # that of a transfer which took 0.1 s
    return [line for line in lines if not re.search(f"^{pattern_of(line)}{end}", output, re.MULTILINE)]


def pattern_of(line: str) -> str:
    """A shown line as a regular expression: numbers and ids may be others, `...` may be anything."""
    pattern = re.escape(line).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"(?<=job\\-)[0-9a-f]{8}", "[0-9a-f]{8}", pattern)
    return re.sub(r"(\\ )*[0-9]+\\\.[0-9]+", r" *\\d+\\.\\d+", pattern)
