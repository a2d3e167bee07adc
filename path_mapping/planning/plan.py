"""Steps of one route, from sorted listings of both sides. Pure: functions that read the disk are passed in.

A file is compared with its object by size, then by record, then by content, which is read at most once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Callable, Generic, Iterator, NamedTuple, Sequence, Tuple, TypeVar

from path_mapping.localfs.names import LONGEST_PATH, Clashes, key_problem, name_problem
from path_mapping.mapping.routes import Route
from path_mapping.mapping.selection import Shard, selected, sharer
from path_mapping.stores.objects import StoredObject, part_sizes_of


class Ends(NamedTuple):
    """Both ends of a route: a file is at `root` plus its name, its object at `prefix` plus its name.

    For a route of a single file, `single` is its name and `prefix` the whole key.
    """

    root: Path
    bucket: str
    prefix: str
    single: str = ""

    @property
    def local(self) -> Path:
        """The directory, or the single file."""
        return self.root / self.single

    def path_of(self, name: str) -> str:
        """The local path of a file, or of a directory, whose name may end in `/`. As text, see `Copy`."""
        return os.path.join(self.root, name.rstrip("/"))

    def key_of(self, name: str) -> str:
        """The key of a file's object."""
        return self.prefix if self.single else self.prefix + name

    def name_of(self, key: str) -> str:
        """The name of an object's file."""
        return self.single or key[len(self.prefix) :]


def directory_ends(route: Route, base: Path) -> Ends:
    """The ends of a route from or to a directory."""
    return Ends(route.path(base), route.remote.bucket, route.remote.prefix)


def uploaded_file_ends(route: Route, base: Path) -> Ends:
    """The ends of an output that is a file: its key is the URL's, plus its own name if that ends in `/`."""
    local, key = route.path(base), route.remote.key
    if not key or key.endswith("/"):
        key += local.name
    return Ends(local.parent, route.remote.bucket, key, local.name)


# Names of the files of a route, with their objects.
Objects = Iterator[Tuple[str, StoredObject]]


def find_input(route: Route, listed: Iterable[StoredObject], base: Path) -> tuple[Ends, Objects] | None:
    """Returns the ends of an input, and its objects with their names. None if its URL does not exist.

    `listed` are the objects whose keys start with the URL's key, in order. A URL that ends in `/` is a
    directory; else an object of exactly this key is a file; else what is below `key/` is a directory. So
    `data` never takes `data2`. A file whose local path ends in `/` goes into that directory. (These are the
    rules of X2MindSpore's path mapping, as its tests show.)
    """
    rest, key = iter(listed), route.remote.key
    first = next(rest, None)
    if first is not None and first.key == key and key and not key.endswith("/"):
        target = route.path(base)
        if route.local.endswith("/"):
            target = target / PurePosixPath(key).name
        return Ends(target.parent, route.remote.bucket, key, target.name), iter([(target.name, first)])
    ends = directory_ends(route, base)
    below = _below(ends.prefix, chain([first] if first else [], rest))
    nearest = next(below, None)
    return None if nearest is None else (ends, chain([nearest], below))


def _below(prefix: str, listed: Iterable[StoredObject]) -> Objects:
    for stored in listed:
        if stored.key.startswith(prefix):
            yield stored.key[len(prefix) :], stored
        elif stored.key > prefix:
            return  # keys are in order: no later one starts with the prefix


Etags = Callable[[str, Tuple[int, ...]], Sequence[str]]
"""The ETags of a local file's content, by its name, for parts of each of these sizes; for none its MD5."""

COPY, SKIP, REFUSE, MAKE, DELETE = "copy", "skip", "refuse", "make", "delete"
# The reason of a step; `RouteScan` counts by it.
NOT_SELECTED = "not selected"


class LocalEntry(NamedTuple):
    """An entry of a local directory: `kind` is file, directory, link or special.

    `size` is in bytes, `mtime_ns` in nanoseconds. `problem` is the reason why it cannot be uploaded.
    """

    kind: str
    size: int
    mtime_ns: int
    problem: str = ""

    @property
    def file_size(self) -> int | None:
        """The size of a regular file, None for anything else."""
        return self.size if self.kind == "file" else None


class RecordEntry(NamedTuple):
    """State of a file on the disk, and ETag of its object, after the last transfer.

    `etag` is without quotes; after an upload it is the response's, or empty. `md5` is the content's, if it
    was computed.
    """

    name: str
    size: int
    mtime_ns: int
    etag: str
    md5: str = ""

    def matches(self, local: LocalEntry) -> bool:
        """Tells whether the entry is a regular file that has not changed since, by size and time."""
        return (local.kind, local.size, local.mtime_ns) == ("file", self.size, self.mtime_ns)


class Step(NamedTuple):
    """A decision: `action` on the file `name` of a route, and the reason.

    `name` is the path below the route's root; a directory's ends in `/`. `etag` is the object's and `local`
    the entry on the disk, if they exist. `md5` is the local content's, if it was computed.
    `learned`: both sides are the same, and the record does not have it yet. `named`: in a notice.
    """

    action: str
    name: str
    size: int
    reason: str
    etag: str = ""
    local: LocalEntry | None = None
    md5: str = ""
    learned: bool = False
    named: bool = False


def unquote_etag(etag: str) -> str:
    """Returns the ETag as a record has it. It changes with the content, whether or not it is an MD5."""
    return etag.strip('"')


def compare_download(
    name: str,
    stored: StoredObject,
    local: LocalEntry | None,
    *,
    entry: RecordEntry | None,
    checksum: bool,
    etags: Etags,
) -> Step:
    """Decides whether an object is downloaded over the entry on the disk."""
    if local is None:
        return Step(COPY, name, stored.size, "not here", stored.etag)
    step = partial(Step, name=name, size=stored.size, etag=stored.etag, local=local)
    if local.kind == "directory":
        return step(REFUSE, reason="a directory is in the place of this file")
    if local.kind != "file":
        return step(COPY, reason="no file is in its place")
    if local.size != stored.size:
        return step(COPY, reason="another size")
    return _compared(step, stored, local, entry=entry, checksum=checksum, etags=partial(etags, name))


def compare_upload(
    name: str,
    local: LocalEntry,
    stored: StoredObject | None,
    *,
    listed: bool,
    entry: RecordEntry | None,
    checksum: bool,
    etags: Etags,
) -> Step:
    """Decides whether a file is uploaded; by the record if the target was not `listed`."""
    step = partial(Step, name=name, size=local.size, etag=stored.etag if stored else "", local=local)
    if not listed:
        if entry is not None and entry.matches(local):
            return step(SKIP, reason="sent already")
        return step(COPY, reason="not sent yet")
    if stored is None:
        return step(COPY, reason="not in OBS")
    if local.size != stored.size:
        return step(COPY, reason="another size")
    return _compared(step, stored, local, entry=entry, checksum=checksum, etags=partial(etags, name))


def _compared(
    step: Callable[..., Step],
    stored: StoredObject,
    local: LocalEntry,
    *,
    entry: RecordEntry | None,
    checksum: bool,
    etags: Callable[[tuple[int, ...]], Sequence[str]],
) -> Step:
    """Compares two sides of the same size: by the record, else by content if the ETag depends on it."""
    same_etag = entry is not None and entry.etag == unquote_etag(stored.etag) != ""
    if entry is not None and same_etag and entry.matches(local) and not checksum:
        return step(SKIP, reason="unchanged", md5=entry.md5)
    expected = (entry.md5 if entry is not None and same_etag else "") or stored.md5
    if expected:
        (actual,) = etags(())
        if actual == expected:
            return step(SKIP, reason="the same content", md5=actual, learned=True)
        return step(COPY, reason="other content", md5=actual)
    sizes = part_sizes_of(stored.etag, stored.size)
    if sizes and unquote_etag(stored.etag).lower() in etags(sizes):
        return step(SKIP, reason="the same content", learned=True)
    if entry is None or checksum:
        return step(COPY, reason="its content is not known")
    return step(COPY, reason="changed here" if same_etag else "changed in OBS")


Item = TypeVar("Item")


class InStep(Generic[Item]):
    """Items with sorted names, merged with other names in the same order."""

    def __init__(self, items: Iterable[tuple[str, Item]]) -> None:
        self._items = iter(items)
        self._next = next(self._items, None)

    def is_behind(self, name: str) -> bool:
        """Tells whether there are items before the name."""
        return self._next is not None and self._next[0] < name

    def before(self, name: str | None) -> Iterator[Item]:
        """Yields the items before the name, each once; all others for None."""
        while self._next is not None and (name is None or self._next[0] < name):
            yield self._next[1]
            self._next = next(self._items, None)

    def at(self, name: str) -> Item | None:
        """Returns the item of this name, if it exists. Items before it are skipped."""
        while self._next is not None and self._next[0] < name:
            self._next = next(self._items, None)
        if self._next is None or self._next[0] != name:
            return None
        value = self._next[1]
        self._next = next(self._items, None)
        return value


def plan_downloads(
    route: Route,
    ends: Ends,
    objects: Objects,
    *,
    entries: Iterable[RecordEntry],
    local_entry: Callable[[str], LocalEntry | None],
    etags: Etags,
    shard: Shard,
    folded: bool,
    noted: Callable[[str], RecordEntry | None],
) -> Iterator[Step]:
    """Yields a step for each object of an input, in the order of their names.

    `local_entry` returns the entry of a name on the disk, `etags` reads its content. `folded`: the disk
    ignores case. `noted` returns the entry that a local file carries itself (see `FileMark`): a run that was
    killed may not have recorded it.
    """
    chosen, clashes = selected(route.include, route.exclude), Clashes(folded)
    recorded = InStep((entry.name, entry) for entry in entries)
    mine = sharer(shard if route.shard else Shard())
    room = LONGEST_PATH - len(os.fsencode(ends.root)) - 1
    for name, stored in objects:
        # Hardly ever true; without the test, each of a million objects would make two iterators.
        if recorded.is_behind(name):
            yield from _gone(recorded.before(name), route, local_entry)
        entry = recorded.at(name)
        if not name:
            if stored.size:  # the marker of the route's own directory
                reason = f"a directory has no content: the {stored.size} bytes of {stored.key!r} are left out"
                yield Step(SKIP, "", stored.size, reason, named=True)
            continue
        if chosen is not None and not chosen(name):
            yield Step(SKIP, name, stored.size, NOT_SELECTED)
            continue
        marker = name.endswith("/") and stored.size == 0
        problem = name_problem(name[:-1] if marker else name) or _too_long(name, room)
        clash = None if problem else clashes.problem(name)
        if problem or clash:
            action = SKIP if clash and marker else REFUSE  # a marker has no content to lose
            yield Step(action, name, stored.size, problem or clash or "")
        elif marker:
            yield _directory(name, local_entry(name))
        elif not mine(stored.size):
            yield Step(SKIP, name, stored.size, "another node's part")
        else:
            local = local_entry(name)
            known = entry or (noted(name) if local is not None else None)
            step = compare_download(name, stored, local, entry=known, checksum=route.checksum, etags=etags)
            if known is not entry and step.action == SKIP:
                step = step._replace(learned=True)
            yield step
    yield from _gone(recorded.before(None), route, local_entry)


def _too_long(name: str, room: int) -> str | None:
    """Returns the problem of a name that is longer than `room` bytes, which the target leaves for it."""
    # A character takes at most 4 bytes: most names need not be encoded.
    if 4 * len(name) <= room or len(os.fsencode(name)) <= room:
        return None
    return f"a path longer than {LONGEST_PATH} bytes"


def _directory(name: str, local: LocalEntry | None) -> Step:
    if local is None:
        return Step(MAKE, name, 0, "an empty directory")
    if local.kind in ("directory", "link"):
        return Step(SKIP, name, 0, "unchanged")
    return Step(REFUSE, name, 0, "a file is in the place of this directory", local=local)


def _gone(
    entries: Iterable[RecordEntry], route: Route, local_entry: Callable[[str], LocalEntry | None]
) -> Iterator[Step]:
    """Deletes files that this route downloaded, that have not changed since, and that OBS no longer has."""
    for entry in entries:
        local = local_entry(entry.name) if route.delete else None
        if local is not None and entry.matches(local):
            yield Step(DELETE, entry.name, entry.size, "no longer in OBS", local=local)


def plan_uploads(
    route: Route,
    ends: Ends,
    files: Iterable[tuple[str, LocalEntry]],
    *,
    objects: Objects | None,
    entries: Iterable[RecordEntry],
    etags: Etags,
    wanted: Callable[[str, LocalEntry], bool],
) -> Iterator[Step]:
    """Yields a step for each local file of an output, in the order of their names.

    `objects` are those at the target, or None if they were not listed: then the record alone decides.
    `wanted` returns whether a file may be uploaded now.
    """
    chosen = selected(route.include, route.exclude)
    recorded = InStep((entry.name, entry) for entry in entries)
    listed = InStep(objects) if objects is not None else None
    complete = True
    for name, local in files:
        yield from _unsent(recorded.before(name), route, complete, listed)
        entry, stored = recorded.at(name), listed.at(name) if listed else None
        problem = local.problem or key_problem(ends.key_of(name))
        # A directory that cannot be read hides files; a special file does not.
        complete = complete and (not problem or local.kind == "special")
        if chosen is not None and not chosen(name):
            yield Step(SKIP, name, local.size, NOT_SELECTED)
        elif problem:
            yield Step(SKIP if local.kind == "special" else REFUSE, name, local.size, problem, local=local)
        elif not wanted(name, local):
            yield Step(SKIP, name, local.size, "still being written")
        elif local.kind == "directory":
            exists = (entry if listed is None else stored) is not None
            action, reason = (SKIP, "unchanged") if exists else (MAKE, "an empty directory")
            yield Step(action, name, 0, reason, local=local)
        else:
            yield compare_upload(
                name,
                local,
                stored,
                listed=listed is not None,
                entry=entry,
                checksum=route.checksum,
                etags=etags,
            )
    yield from _unsent(recorded.before(None), route, complete, listed)


def _unsent(
    entries: Iterable[RecordEntry], route: Route, complete: bool, listed: InStep[StoredObject] | None
) -> Iterator[Step]:
    """Deletes objects whose files are gone; none if listing the files had a problem, which may hide files.

    An object that is not the one that was uploaded stays; without a listing, `_delete_objects` checks that.
    """
    for entry in entries:
        stored = listed.at(entry.name) if listed is not None else None
        if not (route.delete and complete) or (listed is not None and stored is None):
            continue
        if stored is None or unquote_etag(stored.etag) == entry.etag:
            yield Step(DELETE, entry.name, entry.size, "no longer here", entry.etag)
        else:
            reason = "not deleted in OBS, where it has changed since its upload"
            yield Step(SKIP, entry.name, entry.size, reason, named=True)
