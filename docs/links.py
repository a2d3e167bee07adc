"""For MkDocs: what in the pages is for readers of the repository, and not for those of the site."""

from __future__ import annotations

import re
from typing import Any

_OTHER_LANGUAGE = re.compile(r"^\[(?:English|简体中文)\]\([^)]*\)\n", re.MULTILINE)
_OUT_OF_DOCS = re.compile(
    r"\[([^]]*)\]\((?:\.\./)+(?:README|benchmarks|examples|image|CONTRIBUTING|CHANGELOG)[^)]*\)"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Without the line that leads to the other language; of links out of docs/ the text. For MkDocs."""
    return _OUT_OF_DOCS.sub(r"\1", _OTHER_LANGUAGE.sub("", markdown, count=1))
