"""A route with its two sides looked at: where it begins and ends, and the stream of its decisions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, Optional, Tuple

from path_mapping.errors import StoreError
from path_mapping.localfs import chunks, md5_of, read_mark
from path_mapping.mapping import Route, Shard
from path_mapping.planning.compare import LocalEntry, RecordEntry
from path_mapping.planning.local_tree import files_below, folds_case, look
from path_mapping.planning.plan import (
    Ends,
    Step,
    directory_ends,
    plan_downloads,
    plan_uploads,
    source_of,
)
from path_mapping.planning.record import Record, record_path
from path_mapping.stores import StoredObject

Lister = Callable[[str, str], Iterator[StoredObject]]
"""The objects of a bucket whose keys begin so; none where there is no such bucket."""

Check = Callable[[], None]
"""Called often; raises to give up."""


def quiet() -> None:
    """Nobody gives up."""


@dataclass(frozen=True)
class RouteScan:
    """A route whose two sides are known: its steps can be read once."""

    route: Route
    ends: Ends
    record: Record
    steps: Iterator[Step]


def scan_download(
    route: Route, base: Path, lister: Lister, part: Shard, check: Check = quiet
) -> Optional[RouteScan]:
    """None for an input that does not exist."""
    found = source_of(route, lister(route.remote.bucket, route.remote.key), base)
    if found is None:
        return None
    ends, objects = found
    record = Record(record_path(ends.local), f"download {route.remote}")

    root = str(ends.root)

    def there(name: str) -> Optional[LocalEntry]:
        try:
            return look(os.path.join(root, name.rstrip("/")))  # faster than a Path, and there are a million
        except OSError:  # nobody may look: then the transfer will say why
            return None

    def noted(name: str) -> Optional[RecordEntry]:
        mark = read_mark(os.path.join(root, name))
        return RecordEntry(name, mark.size, mark.mtime_ns, mark.etag) if mark is not None else None

    md5, folded = partial(_md5, check, ends.root), folds_case(ends.root)
    steps = plan_downloads(route, ends, objects, record.entries(), there, md5, part, folded, noted)
    return RouteScan(route, ends, record, steps)


def scan_upload(
    route: Route,
    base: Path,
    lister: Optional[Lister],
    notice: Callable[[str], None],
    wanted: Callable[[Path, LocalEntry], bool],
    check: Check = quiet,
) -> Optional[RouteScan]:
    """None for an output with nothing at its local path; without a lister the record alone decides.

    A directory goes below the URL; a file gets exactly the URL's key, or its own name below a URL that ends
    in `/`. A target that cannot be listed is a notice: everything is sent then.
    """
    local = route.path(base)
    found = _source(local)
    if found is None:
        return None
    ends, files = directory_ends(route, base), files_below(local)
    if found.kind != "directory":
        key = route.remote.key
        if not key or key.endswith("/"):
            key += local.name
        ends, files = (
            Ends(local.parent, route.remote.bucket, key, local.name),
            iter([(local.name, _single(found))]),
        )
    objects = None
    if lister is not None:
        objects = _named(ends, _forgiving(lister(ends.bucket, ends.prefix), route, notice))
    record = Record(record_path(ends.local), f"upload {route.remote}")

    def may_go(name: str, one: LocalEntry) -> bool:
        return wanted(ends.root / name, one)

    md5 = partial(_md5, check, ends.root)
    return RouteScan(
        route, ends, record, plan_uploads(route, ends, files, objects, record.entries(), md5, may_go)
    )


def _md5(check: Check, root: Path, name: str) -> str:
    def pieces() -> Iterator[bytes]:
        for piece in chunks(root / name):
            check()
            yield piece

    return md5_of(pieces())


def _source(local: Path) -> Optional[LocalEntry]:
    """What an output is; a link there leads to it."""
    try:
        found = look(local)
        if found is not None and found.kind == "link":
            return look(Path(os.path.realpath(local))) or found._replace(problem="a link to nothing")
        return found
    except OSError as error:
        return LocalEntry("file", 0, 0, f"cannot be read: {error.strerror}")


def _single(found: LocalEntry) -> LocalEntry:
    if found.kind == "file" or found.problem:
        return found
    return LocalEntry("file", 0, 0, "neither a file nor a directory")


def _named(ends: Ends, objects: Iterator[StoredObject]) -> Iterator[Tuple[str, StoredObject]]:
    for found in objects:
        if not ends.single:
            yield found.key[len(ends.prefix) :], found
        elif found.key == ends.prefix:
            yield ends.single, found


def _forgiving(
    objects: Iterator[StoredObject], route: Route, notice: Callable[[str], None]
) -> Iterator[StoredObject]:
    try:
        yield from objects
    except StoreError as error:
        notice(f"{route.remote} cannot be listed, so all files are sent: {error}")
