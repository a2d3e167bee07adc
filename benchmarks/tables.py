"""Writes tables into README.md and RESULTS.md, between marks, with commit, cores and date of the figures."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from summary import summary

HERE = Path(__file__).parent
# The first page has the summary of all.
PAGES = (HERE / "README.md", HERE / "RESULTS.md")
SOURCES = ("ma_boot", "path_mapping", "benchmarks/*.py")


def write(name: str, table: str, pages: Sequence[Path] = PAGES, after: str = "") -> None:
    """Puts the table between the marks `<!-- name -->` and `<!-- /name -->`, in place of an earlier one.

    If no page has a place for it yet, it gets one on the last page, `after` the table of that name, or at the
    end if that is elsewhere. The table between the marks of `summary` is made again, from all pages.

    Raises `ValueError` if the marks are not there once.
    """
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    if after and not any(start in text for text in texts.values()):
        texts[pages[-1]] = _with_place(texts[pages[-1]], name, after)
    places = [page for page, text in texts.items() for _ in range(text.count(start))]
    if len(places) != 1 or texts[places[0]].count(end) != 1:
        found = ", ".join(page.name for page in pages)
        raise ValueError(f"{found}: expected the marks {start} and {end} once each")
    between = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    block = f"{start}\n{table.strip()}\n\n{origin()}\n{end}"
    texts[places[0]] = between.sub(lambda _: block, texts[places[0]])
    lines = summary("".join(texts.values()))
    first = re.compile("(<!-- summary -->\n).*?(<!-- /summary -->)", re.DOTALL)
    texts[pages[0]] = first.sub(lambda marks: f"{marks[1]}{lines}\n{marks[2]}", texts[pages[0]])
    for page, text in texts.items():
        new = page.with_name(page.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(page)


def _with_place(text: str, name: str, after: str) -> str:
    last = f"<!-- /{after} -->\n"
    place = f"\n### {name.partition(' ')[2]}\n\n<!-- {name} -->\n<!-- /{name} -->\n"
    return text.replace(last, last + place) if last in text else text + place


def origin() -> str:
    """Where figures of this moment are from."""
    cores = len(os.sched_getaffinity(0))
    today = datetime.date.today().isoformat()
    return f"{today}, commit {commit()}, {cores} core{'s' if cores > 1 else ''}."


def commit() -> str:
    """The commit of the sources, with `+` if they have been changed since; `unknown` outside of a clone."""
    try:
        revision = _git("rev-parse", "--short=9", "HEAD").strip()
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", *SOURCES).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return revision + ("+" if changed else "")


def _git(*arguments: str) -> str:
    root = HERE.parent
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout
