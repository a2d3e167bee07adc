"""Files that an interrupted upload has not sent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple

from ma_boot.errors import OutputLost
from ma_boot.report.journal import Journal
from ma_boot.wording import Message, counted, in_lines, size
from path_mapping.errors import printable

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route
    from path_mapping.stores.objects import Copy

# Files in the last lines of the output, and in the event.
MOST_NAMED = 5
MOST_RECORDED = 200


class Unsent(NamedTuple):
    """Number and bytes of the files that were not sent, and the first paths, relative to the base."""

    files: int
    size: int
    paths: tuple[str, ...]


class UnsentFiles:
    """Collects the files of outputs that are not known to be in OBS.

    `ordinary` returns the predicate of the files that are uploaded one by one.
    """

    def __init__(
        self, routes: Sequence[Route], base: Path, ordinary: Callable[[], Callable[[str], bool]]
    ) -> None:
        self._routes, self._base, self._ordinary = routes, base, ordinary
        self._unsent: Unsent | None = None

    def take(self, copies: Iterator[Copy]) -> None:
        """Takes the files that an upload has not sent at its end."""
        self._unsent = self._count((copy.path, copy.size) for copy in copies)

    def add_names(self, lost: OutputLost, journal: Journal) -> OutputLost:
        """Returns the loss with the names of the files, and writes their event.

        If the upload was interrupted before it had compared the files with OBS, all files are named.
        """
        unsent = self._unsent if self._unsent is not None else self._of_outputs(journal)
        if not unsent.files:
            return lost
        journal.event("unsent", files=unsent.files, bytes=unsent.size, paths=list(unsent.paths))
        named = ", ".join(unsent.paths[:MOST_NAMED])
        more = unsent.files - MOST_NAMED
        text = Message.of(
            "not known to be in OBS: {}, {}: {}{}",
            counted(unsent.files, "file"),
            size(unsent.size),
            named,
            Message.of(" and {} more", more) if more > 0 else "",
        )
        return OutputLost(in_lines([str(lost), text]))

    def _of_outputs(self, journal: Journal) -> Unsent:
        found: list[Unsent] = []
        with journal.best_effort("the files that were not uploaded are not named"):
            found.append(self._count(self._on_disk()))
        return found[0] if found else Unsent(0, 0, ())

    def _on_disk(self) -> Iterator[tuple[str, int]]:
        from path_mapping.mapping.selection import selected
        from path_mapping.planning.local_tree import files_below

        is_ordinary = self._ordinary()
        for route in self._routes:
            root = route.path(self._base)
            is_selected = selected(route.include, route.exclude) or (lambda name: True)
            if root.is_file():
                yield os.fspath(root), root.stat().st_size
                continue
            for name, entry in files_below(root) if root.is_dir() else ():
                path = os.path.join(root, name)
                if entry.kind == "file" and is_selected(name) and is_ordinary(path):
                    yield path, entry.size

    def _count(self, files: Iterable[tuple[str, int]]) -> Unsent:
        count = total = 0
        paths: list[str] = []
        # There may be millions of files, so only the first paths are kept.
        for path, length in files:
            count, total = count + 1, total + length
            if len(paths) < MOST_RECORDED:
                name = os.path.relpath(path, self._base)
                paths.append(printable(path if name.startswith("../") else name))
        return Unsent(count, total, tuple(paths))
