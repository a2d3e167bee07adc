"""The first table of README.md: for each other table, ma_boot and the fastest peer that does the same. Pure.

A peer whose exit code is wrong, or that leaves ranks or loses output, does not do the same; nor do programs
that compare nothing (curl, cat, a shell loop).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

OWN = ("ma_boot", "ours")
AS_INPUTS = "ours as a job's inputs"
NO_PEERS = ("shell loop", "`cat` alone", "cp", "curl", AS_INPUTS)
TITLES = {
    "start": "8 ranks, from start to exit (s)",
    "failure": "from the failure of a rank to the exit (s)",
    "stop": "from SIGTERM to the exit (s)",
    "idle": "memory while 8 ranks sleep (MB)",
    "sync A down": "download, 10,000 files of 16 KiB (s)",
    "sync A up": "upload of these (s)",
    "sync A down TLS": "download of these over TLS (s)",
    "sync A up TLS": "upload of these over TLS (s)",
    "sync A down radosgw": "download of these from radosgw (s)",
    "sync A up radosgw": "upload of these to radosgw (s)",
    "sync A nothing": "download of these, nothing to do (s)",
    "sync A latency": "download of these, each answer 20 ms later (s)",
    "sync B down": "download, 4 files of 512 MiB (s)",
    "sync B down radosgw": "download of these from radosgw (s)",
    "sync B up": "upload of these (s)",
    "sync B down TLS": "download of these over TLS (s)",
    "sync B up TLS": "upload of these over TLS (s)",
    "sync C down": "download, 2,000 files around 1 MiB (s)",
    "sync C down radosgw": "download of these from radosgw (s)",
    "sync C up": "upload of these (s)",
    "sync C down TLS": "download of these over TLS (s)",
    "sync C up TLS": "upload of these over TLS (s)",
    "sync D down": "download, 10,000 files of 256 KiB (s)",
    "sync D up": "upload of these (s)",
    "sync D down TLS": "download of these over TLS (s)",
    "sync D up TLS": "upload of these over TLS (s)",
    "sync E down": "download, one file of 5 GiB (s)",
    "sync E up": "upload of this (s)",
    "sync E down TLS": "download of this over TLS (s)",
    "sync E up TLS": "upload of this over TLS (s)",
}
HEAD = "| row | ours | best peer | | peer / ours | measured |\n|---|---|---|---|---|---|"


class Row(NamedTuple):
    """A launcher or tool, its figure, and whether it does the whole of the work."""

    name: str
    figure: float
    right: bool


def summary(text: str) -> str:
    """The table, of the tables that the pages have."""
    return "\n".join([HEAD, *(line for mark, title in TITLES.items() for line in _line(text, mark, title))])


def _line(text: str, mark: str, title: str) -> Iterator[str]:
    block = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", text, re.DOTALL)
    rows = list(_rows(block.group(1))) if block else []
    ours: Row | None = next((row for row in rows if row.name in OWN), None)
    peers = [row for row in rows if row.right and row.name not in (*OWN, *NO_PEERS)]
    if block is None or ours is None or not peers:
        return
    best = min(peers, key=lambda row: row.figure)
    ratio = f"{best.figure / ours.figure:.1f}"
    origin = "".join(re.findall(r"^(\S+, commit \w+)", block.group(1), re.MULTILINE))
    ahead = f"**{best.name}**" if best.figure < ours.figure else best.name
    yield f"| {title} | {ours.figure:g} | {best.figure:g} | {ahead} | {ratio} | {origin} |"


def _rows(table: str) -> Iterator[Row]:
    head: list[str] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not head:
            head = cells
        elif len(cells) > 1 and re.fullmatch(r"[\d.]+", cells[1]):
            left = dict(zip(head, cells)).get("ranks left", "0")
            yield Row(
                cells[0].strip("*"),
                float(cells[1]),
                left == "0" and not any(", not " in cell for cell in cells),
            )
