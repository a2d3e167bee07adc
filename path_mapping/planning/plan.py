"""What is to be copied: listings and local files to one decision for each. Pure; looks are handed in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Tuple

from path_mapping.localfs import LONGEST_PATH, Clashes, no_key, unsafe
from path_mapping.mapping import Route, Shard, selected, sharer
from path_mapping.planning.compare import (
    Comparison,
    LocalEntry,
    RecordEntry,
    compare_download,
    compare_upload,
)
from path_mapping.stores import StoredObject

COPY, SKIP, REFUSE, MAKE, DELETE = "copy", "skip", "refuse", "make", "delete"


@dataclass(frozen=True)
class Copy:
    """One file to move: the local path, which lies in `root`, and the object.

    `etag` is the object's, as the listing had it; `route` the number of its route; `mtime_ns` the time of the
    file that is to be uploaded.
    """

    local: Path
    root: Path
    bucket: str
    key: str
    size: int
    etag: str = ""
    route: int = 0
    mtime_ns: int = 0

    @property
    def url(self) -> str:
        """The object's place."""
        return f"obs://{self.bucket}/{self.key}"


class Step(NamedTuple):
    """One decision: `action` on the file `name` of a route, and why.

    `name` is the path below the route's root; of a directory it ends in `/`. `etag` is that of the object,
    and `local` what is here, where there is one. `md5` and `learned` are the verdict's.
    """

    action: str
    name: str
    size: int
    reason: str
    etag: str = ""
    local: Optional[LocalEntry] = None
    md5: str = ""
    learned: bool = False


@dataclass(frozen=True)
class Ends:
    """The two ends of a route: `root` and the name below it, `prefix` and the key behind it.

    A route of a single file has its name as `single`; then `prefix` is its whole key.
    """

    root: Path
    bucket: str
    prefix: str
    single: str = ""

    @property
    def local(self) -> Path:
        """The directory, or the single file."""
        return self.root / self.single

    def key_of(self, name: str) -> str:
        """The object of a file."""
        return self.prefix if self.single else self.prefix + name

    def name_of(self, copy: Copy) -> str:
        """The file's name below the root."""
        return self.single or copy.key[len(self.prefix) :]


def directory_ends(route: Route, base: Path) -> Ends:
    """The route as a directory below its URL."""
    key = route.remote.key
    prefix = key if not key or key.endswith("/") else key + "/"
    return Ends(route.path(base), route.remote.bucket, prefix)


Objects = Iterator[Tuple[str, StoredObject]]


def source_of(route: Route, objects: Iterable[StoredObject], base: Path) -> Optional[Tuple[Ends, Objects]]:
    """The ends of an input, and its objects with their names; None where it does not exist.

    A URL that ends in `/` is a directory; else an object of exactly this key is a file; else what lies
    below `key/` is a directory. So `data` never takes `data2`. A file whose local path ends in `/` goes
    into that directory (the rules of X2MindSpore's path mapping, and of its tests).
    """
    listed, key = iter(objects), route.remote.key
    first = next(listed, None)
    if first is not None and first.key == key and key and not key.endswith("/"):
        target = route.path(base)
        if route.local.endswith("/"):
            target = target / PurePosixPath(key).name
        ends = Ends(target.parent, route.remote.bucket, key, target.name)
        return ends, iter([(target.name, first)])
    ends = directory_ends(route, base)
    below = _below(ends.prefix, chain([first] if first else [], listed))
    found = next(below, None)
    return None if found is None else (ends, chain([found], below))


def _below(prefix: str, objects: Iterable[StoredObject]) -> Objects:
    for found in objects:
        if found.key.startswith(prefix):
            yield found.key[len(prefix) :], found
        elif found.key > prefix:
            return  # keys come in order: none of the rest begins so


class Recorded:
    """The entries of a record beside names that come in the same order."""

    def __init__(self, entries: Iterable[RecordEntry]) -> None:
        self._entries = iter(entries)
        self._next = next(self._entries, None)

    def before(self, name: Optional[str]) -> Iterator[RecordEntry]:
        """The entries that come before the name, each once; all that are left for None."""
        while self._next is not None and (name is None or self._next.name < name):
            yield self._next
            self._next = next(self._entries, None)

    def at(self, name: str) -> Optional[RecordEntry]:
        """The entry of the name, which is taken."""
        found = self._next
        if found is None or found.name != name:
            return None
        self._next = next(self._entries, None)
        return found


def plan_downloads(
    route: Route,
    ends: Ends,
    objects: Objects,
    entries: Iterable[RecordEntry],
    look: Callable[[str], Optional[LocalEntry]],
    md5: Callable[[str], str],
    part: Shard = Shard(),  # noqa: B008 -- a frozen value
    folded: bool = False,
    noted: Callable[[str], Optional[RecordEntry]] = lambda name: None,
) -> Iterator[Step]:
    """A step for each object of an input, in the order of their names.

    `look` tells what is at a name on the disk, `md5` reads it; `folded`: the disk takes `A` and `a` for one.
    `noted` is what the file itself says that it is a copy of: a run that was killed has no record of it.
    """
    chosen, clashes, recorded = selected(route.include, route.exclude), Clashes(folded), Recorded(entries)
    mine = sharer(part if route.shard else Shard())
    room = LONGEST_PATH - len(os.fsencode(ends.root)) - 1
    for name, found in objects:
        yield from _gone(recorded.before(name), route, look)
        entry = recorded.at(name)
        if not name:
            continue  # the marker of the route's own directory
        marker = name.endswith("/") and found.size == 0
        problem = unsafe(name[:-1] if marker else name) or _too_long(name, room)
        wanted = chosen is None or chosen(name)
        clash = clashes.problem(name) if wanted and not problem else None
        if not wanted:
            yield Step(SKIP, name, found.size, "not selected")
        elif problem:
            yield Step(REFUSE, name, found.size, problem)
        elif clash is not None:
            yield Step(SKIP if marker else REFUSE, name, found.size, clash)  # a marker has nothing to lose
        elif marker:
            yield _directory(name, look(name))
        elif not mine(found.size):
            yield Step(SKIP, name, found.size, "another node's part")
        else:
            local = look(name)
            known = entry or (noted(name) if local is not None else None)
            verdict = compare_download(found, local, known, route.checksum, partial(md5, name))
            if known is not entry and verdict.action == SKIP:
                verdict = verdict._replace(learned=True)  # the file says it, and the record shall
            yield _step(verdict, name, found.size, found, local)
    yield from _gone(recorded.before(None), route, look)


def _too_long(name: str, room: int) -> Optional[str]:
    """`room` is the number of bytes that the target leaves for a name."""
    if 4 * len(name) <= room or len(os.fsencode(name)) <= room:
        return None
    return f"a path longer than {LONGEST_PATH} bytes"


def _directory(name: str, local: Optional[LocalEntry]) -> Step:
    if local is None:
        return Step(MAKE, name, 0, "an empty directory")
    if local.kind in ("directory", "link"):
        return Step(SKIP, name, 0, "unchanged")
    return Step(REFUSE, name, 0, "a file is in the place of this directory", local=local)


def _step(
    verdict: Comparison, name: str, size: int, found: Optional[StoredObject], local: Optional[LocalEntry]
) -> Step:
    etag = found.etag if found is not None else ""
    return Step(verdict.action, name, size, verdict.reason, etag, local, verdict.md5, verdict.learned)


def _gone(
    entries: Iterable[RecordEntry], route: Route, look: Callable[[str], Optional[LocalEntry]]
) -> Iterator[Step]:
    """Files that came by this route, are as they came, and are not in OBS any more."""
    for entry in entries:
        local = look(entry.name) if route.delete else None
        if local is not None and (local.kind, local.size, local.mtime_ns) == (
            "file",
            entry.size,
            entry.mtime_ns,
        ):
            yield Step(DELETE, entry.name, entry.size, "no longer in OBS", local=local)


def plan_uploads(
    route: Route,
    ends: Ends,
    files: Iterable[Tuple[str, LocalEntry]],
    objects: Optional[Objects],
    entries: Iterable[RecordEntry],
    md5: Callable[[str], str],
    wanted: Callable[[str, LocalEntry], bool] = lambda name, local: True,
) -> Iterator[Step]:
    """A step for each local file of an output, in the order of their names.

    `objects` are those at the target; None when nobody looked: then the record alone decides. `wanted` says
    whether a file may go now.
    """
    chosen, recorded = selected(route.include, route.exclude), Recorded(entries)
    stored = Beside(objects) if objects is not None else None
    whole = True
    for name, local in files:
        yield from _unsent(recorded.before(name), route, whole)
        entry, found = recorded.at(name), stored.at(name) if stored else None
        problem = local.problem or no_key(ends.key_of(name))
        whole = whole and not problem
        if chosen is not None and not chosen(name):
            yield Step(SKIP, name, local.size, "not selected")
        elif problem:
            yield Step(SKIP if local.kind == "special" else REFUSE, name, local.size, problem, local=local)
        elif not wanted(name, local):
            yield Step(SKIP, name, local.size, "still being written")
        elif local.kind == "directory":
            there = entry is not None if stored is None else found is not None
            action, reason = (SKIP, "unchanged") if there else (MAKE, "an empty directory")
            yield Step(action, name, 0, reason, local=local)
        else:
            verdict = compare_upload(
                local, found, stored is not None, entry, route.checksum, partial(md5, name)
            )
            yield _step(verdict, name, local.size, found, local)
    yield from _unsent(recorded.before(None), route, whole)


def _unsent(entries: Iterable[RecordEntry], route: Route, whole: bool) -> Iterator[Step]:
    """Files that went by this route and are gone; not after a problem: they may be behind it."""
    for entry in entries:
        if route.delete and whole:
            yield Step(DELETE, entry.name, entry.size, "no longer here")


class Beside:
    """Objects beside names that come in the same order."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._next = next(objects, None)

    def at(self, name: str) -> Optional[StoredObject]:
        """The object of this name, None where there is none."""
        while self._next is not None and self._next[0] < name:
            self._next = next(self._objects, None)
        return self._next[1] if self._next is not None and self._next[0] == name else None
