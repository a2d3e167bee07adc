"""What README and tutorial show: their commands, as a new user types them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).parents[1]
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"


def script_of(document: Path, first: str, last: str) -> str:
    """The commands of the chapters from `first` to `last`, as a script of bash; Python code goes into `train.py`."""
    chapters = re.split(r"^## ", document.read_text(), flags=re.MULTILINE)
    titles = [chapter.partition("\n")[0] for chapter in chapters]
    text = "".join(chapters[titles.index(first) : titles.index(last) + 1])
    return "".join(["set -eu\n", *_commands(text)])


def _commands(text: str) -> Iterator[str]:
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "sh":
            yield block
        elif kind == "python":
            yield f"cat > train.py <<'END_OF_FILE'\n{block}END_OF_FILE\n"
