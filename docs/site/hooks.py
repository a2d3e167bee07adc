"""MkDocs' hooks: pages without what only readers of the repository need; a search index for each language."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

_OTHER_LANGUAGE = re.compile(r"^\[(?:English|简体中文)\]\([^)]*\)\n", re.MULTILINE)
_OUT_OF_DOCS = re.compile(
    r"\[([^]]*)\]\((?:\.\./)+(?:README|benchmarks|examples|image|CONTRIBUTING|CHANGELOG)[^)]*\)"
)
_INLINE_CODE = re.compile(r"(?<!</span>)<code>([^<]*--[^<]*)</code>")  # code of a block follows a span
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_CHINESE = "zh-CN/"
_CODE_BLOCK = re.compile(r"^( *```.*?^ *```)$", re.MULTILINE | re.DOTALL)
# A line break inside of a Chinese sentence: a browser shows it as a blank.
_BREAK_IN_CHINESE = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff60])\n(?=[\u3001-\u9fff\uff01-\uff60])")
_BASE = re.compile(r'(?<="base": ")\.\.(/(?=\.\.))?')


def on_startup(**_: Any) -> None:
    """Silences the library that finds Chinese words: it logs each load of its dictionary."""
    logging.getLogger("jieba").setLevel(logging.WARNING)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Removes the link to the other language, targets of links out of docs/, and breaks of Chinese lines."""
    text = _OUT_OF_DOCS.sub(r"\1", _OTHER_LANGUAGE.sub("", markdown, count=1))
    parts = _CODE_BLOCK.split(text)  # each second one is a block
    return "".join(
        part if number % 2 else _BREAK_IN_CHINESE.sub("", part) for number, part in enumerate(parts)
    )


def on_page_content(html: str, **_: Any) -> str:
    """Marks the options in the text, so that the style sheet keeps each of them on one line."""
    return _INLINE_CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Makes the directory of the Chinese pages the base of their search, so that it reads the index there."""
    if not page.file.dest_uri.startswith(_CHINESE):
        return output
    return _BASE.sub(lambda found: "" if found[1] else ".", output, count=1)


@event_priority(-200)  # after that of i18n, at -100, which builds the Chinese pages
def on_post_build(config: Any, **_: Any) -> None:
    """Writes a search index for each language, as JSON and, for pages opened as files, as a script."""
    site = Path(config["site_dir"])
    whole = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    english = [doc for doc in whole["docs"] if not doc["location"].startswith(_CHINESE)]
    chinese = [
        {**doc, "location": doc["location"].removeprefix(_CHINESE)}
        for doc in whole["docs"]
        if doc["location"].startswith(_CHINESE)
    ]
    translated = {_page(doc) for doc in chinese}
    chinese += [doc for doc in english if _page(doc) not in translated]  # has a copy beside the Chinese pages
    for directory, docs in ((site, english), (site / _CHINESE, chinese)):
        index = json.dumps({**whole, "docs": docs}, ensure_ascii=False)
        (directory / "search").mkdir(parents=True, exist_ok=True)
        (directory / "search" / "search_index.json").write_text(index, encoding="utf-8")
        (directory / "search" / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


def _page(doc: dict[str, str]) -> str:
    """Path of the page of an entry, without the title in it."""
    return doc["location"].partition("#")[0]
