"""One route with both sides listed: its ends, and its steps, counted as they are read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Callable, Iterator

from path_mapping.errors import StoreError, printable
from path_mapping.localfs.atomic_file import read_mark
from path_mapping.localfs.source_file import chunks
from path_mapping.mapping.routes import Route
from path_mapping.mapping.selection import Shard, selected
from path_mapping.planning.local_tree import (
    SpaceNeed,
    files_below,
    folds_case,
    free_space,
    local_entry,
    shortages,
)
from path_mapping.planning.plan import (
    COPY,
    NOT_SELECTED,
    REFUSE,
    SKIP,
    Ends,
    LocalEntry,
    Objects,
    RecordEntry,
    Step,
    directory_ends,
    find_input,
    plan_downloads,
    plan_uploads,
    uploaded_file_ends,
)
from path_mapping.planning.record import Record
from path_mapping.stores.contents import ContentSum
from path_mapping.stores.objects import Checksums, StoredObject

Lister = Callable[[str, str], Iterator[StoredObject]]
"""The objects of a bucket whose keys start with a prefix, in order; none if the bucket does not exist."""

Check = Callable[[], None]
"""Called often; raises to cancel."""


# Names of files that no pattern selects, in a message.
MOST_EXAMPLES = 2


def never_cancelled() -> None:
    """The `Check` of a scan that cannot be cancelled."""


class RouteScan:
    """A route with both sides listed. Its steps can be read once, which counts them.

    `files` and `bytes` are by action, `same` is the number of files that are the same on both sides, and
    `need` is the space that the copies take on the disk. Of the source's files, `selected` match the patterns
    and `unselected` do not; `examples` are names of the latter.
    """

    def __init__(self, route: Route, ends: Ends, record: Record, steps: Iterator[Step]) -> None:
        self.route = route
        self.ends = ends
        self.record = record
        self.files: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.same = 0
        self.need = SpaceNeed()
        self.selected = self.unselected = 0
        self.examples: list[str] = []
        self._steps = steps

    def __iter__(self) -> Iterator[Step]:
        for step in self._steps:
            action, size, local = step.action, step.size, step.local
            self.files[action] += 1
            self.bytes[action] += size
            if action == COPY:
                self.need = self.need.plus(size, None if local is None else local.file_size)
            elif action == SKIP and local is not None and not step.name.endswith("/"):
                self.same += not local.problem
            if step.name and not step.name.endswith("/"):  # a file, not a directory
                self._count(step)
            yield step

    def _count(self, step: Step) -> None:
        if step.reason == NOT_SELECTED:
            self.unselected += 1
            if len(self.examples) < MOST_EXAMPLES:
                self.examples.append(step.name)
        elif step.action in (COPY, REFUSE):
            self.selected += 1
        elif step.action == SKIP and not step.named:
            self.selected += step.local is None or not step.local.problem

    @property
    def selects_nothing(self) -> bool:
        """True if the patterns select none of the source's files. Only after the steps were read."""
        return bool(self.unselected) and not self.selected

    @property
    def is_empty(self) -> bool:
        """True if the source has no files at all. Only after the steps were read."""
        return not self.selected and not self.unselected

    def why_nothing(self, kind: str) -> str:
        """Returns the patterns, and examples of files that they do not select; `kind` is object or file."""
        patterns = [
            f"{option} {list(lines)}"
            for option, lines in (("include", self.route.include), ("exclude", self.route.exclude))
            if lines
        ]
        names = [printable(name) for name in self.examples]
        more = ["..."] if self.unselected > len(names) else []
        count = f"{self.unselected} {kind}{'s' if self.unselected > 1 else ''}"
        return f"none of its {count} ({', '.join([*names, *more])}) is selected by {', '.join(patterns)}"

    def has_sent(self) -> bool:
        """Tells whether the record has a selected file: it was uploaded, and removed here since."""
        chosen = selected(self.route.include, self.route.exclude)
        return any(chosen is None or chosen(entry.name) for entry in self.record.entries())


def space_problems(scans: Iterable[RouteScan]) -> list[str]:
    """Returns a message for each disk that is too small for inputs whose steps have been read."""
    needs = {scan.ends.local: scan.need for scan in scans if scan.need != SpaceNeed()}
    return shortages(needs, {target: free_space(target) for target in needs})


def scan_download(
    route: Route,
    base: Path,
    lister: Lister,
    *,
    shard: Shard,
    check: Check = never_cancelled,
    recorded: bool = True,
) -> RouteScan | None:
    """Scans an input; None if it does not exist. Raises `StoreError`, now or as steps are read."""
    source = find_input(route, lister(route.remote.bucket, route.remote.key), base)
    if source is None:
        return None
    ends, objects = source
    record, root = Record(ends.local, f"download {route.remote}", recorded), str(ends.root)

    def entry_below(name: str) -> LocalEntry | None:
        try:
            return local_entry(os.path.join(root, name.rstrip("/")))
        except OSError:  # no permission: the transfer will report it
            return None

    def noted(name: str) -> RecordEntry | None:
        mark = read_mark(os.path.join(root, name))
        return RecordEntry(name, mark.size, mark.mtime_ns, mark.etag) if mark is not None else None

    etags, folded = partial(_etags, check, ends.root), folds_case(ends.root)
    steps = plan_downloads(
        route,
        ends,
        objects,
        entries=record.entries(),
        local_entry=entry_below,
        etags=etags,
        shard=shard,
        folded=folded,
        noted=noted,
    )
    return RouteScan(route, ends, record, steps)


def scan_upload(
    route: Route,
    base: Path,
    lister: Lister | None,
    *,
    notice: Callable[[str], None] | None,
    wanted: Callable[[str, LocalEntry], bool] = lambda path, local: True,
    check: Check = never_cancelled,
    recorded: bool = True,
    belongs: Callable[[str], bool] = lambda path: True,
) -> RouteScan | None:
    """Scans an output; None if its local path does not exist.

    `wanted` files are sent now, others later; files for which `belongs` is false are left out. Without a
    lister the record alone decides. If the target cannot be listed, `notice` is called with a message, and
    all files are uploaded; without `notice` reading the steps raises `StoreError`.
    """
    local = route.path(base)
    output = _output_entry(local)
    if output is None:
        return None
    if output.kind == "directory":
        ends, files = directory_ends(route, base), files_below(local)
    else:
        ends, files = uploaded_file_ends(route, base), iter([(local.name, output)])
    files = ((name, entry) for name, entry in files if belongs(ends.path_of(name)))
    objects = _listed(ends, lister, route, notice) if lister is not None else None
    record = Record(ends.local, f"upload {route.remote}", recorded)

    def may_go(name: str, child: LocalEntry) -> bool:
        return wanted(ends.path_of(name), child)

    etags = partial(_etags, check, ends.root)
    steps = plan_uploads(
        route, ends, files, objects=objects, entries=record.entries(), etags=etags, wanted=may_go
    )
    return RouteScan(route, ends, record, steps)


def _etags(check: Check, root: Path, name: str, sizes: tuple[int, ...]) -> list[str]:
    content = ContentSum(Checksums(md5=None if sizes else "", etag="of parts", part_sizes=sizes))
    for piece in chunks(root / name):
        check()
        content.add(piece)
    return content.etags() if sizes else [content.md5()]


def _output_entry(local: Path) -> LocalEntry | None:
    """Returns the entry of an output, after a link; one that is no file and no directory has a problem."""
    try:
        entry = local_entry(local)
        if entry is not None and entry.kind == "link":
            entry = local_entry(Path(os.path.realpath(local))) or entry._replace(problem="a link to nothing")
    except OSError as error:
        return LocalEntry("file", 0, 0, f"cannot be read: {error.strerror}")
    if entry is not None and entry.kind not in ("file", "directory") and not entry.problem:
        return LocalEntry("file", 0, 0, "neither a file nor a directory")
    return entry


def _listed(ends: Ends, lister: Lister, route: Route, notice: Callable[[str], None] | None) -> Objects:
    """Yields the objects at an output's URL with their names; a listing that fails ends with a notice."""
    try:
        for stored in lister(ends.bucket, ends.prefix):
            if not ends.single or stored.key == ends.prefix:
                yield ends.name_of(stored.key), stored
    except StoreError as error:
        if notice is None:
            raise
        notice(f"{route.remote} cannot be listed, so all files are uploaded: {error}")
