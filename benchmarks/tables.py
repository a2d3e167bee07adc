"""Writes tables into README.md, between marks, with the commit, the cores and the date of their figures."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from pathlib import Path

from summary import summary

README = Path(__file__).with_name("README.md")
SOURCES = ("ma_boot", "path_mapping", "benchmarks/*.py")


def write(name: str, table: str, file: Path = README, after: str = "") -> None:
    """Puts the table between the marks `<!-- name -->` and `<!-- /name -->`, in place of an earlier one.

    If it has no place yet, it gets one `after` the table of that name.

    The first table of the file, between the marks of `summary`, is made again.

    Raises `ValueError` if the marks are not there once.
    """
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = file.read_text(encoding="utf-8")
    if after and start not in text:
        last = f"<!-- /{after} -->\n"
        text = text.replace(last, f"{last}\n### {name.partition(' ')[2]}\n\n{start}\n{end}\n")
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"{file}: expected the marks {start} and {end} once each")
    between = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    block = f"{start}\n{table.strip()}\n\n{origin()}\n{end}"
    written = between.sub(lambda _: block, text)
    first = re.compile("(<!-- summary -->\n).*?(<!-- /summary -->)", re.DOTALL)
    new = file.with_name(file.name + ".new")
    new.write_text(
        first.sub(lambda marks: f"{marks[1]}{summary(written)}\n{marks[2]}", written), encoding="utf-8"
    )
    new.replace(file)


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
    root = README.parents[1]
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout
