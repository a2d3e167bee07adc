"""What is to be done for a mapping, in bounded memory: decided before the first byte, told what was done."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from path_mapping.errors import Failure, MissingInputs, NoSpace, PathMappingError, UnsafeTarget
from path_mapping.localfs import chunks, md5_of, printable, shown
from path_mapping.mapping import PathMapping, Route, Shard, overlaps
from path_mapping.planning.compare import LocalEntry, RecordEntry
from path_mapping.planning.local_tree import look
from path_mapping.planning.plan import COPY, DELETE, MAKE, REFUSE, SKIP, Copy, Ends, Step
from path_mapping.planning.route_scan import Check, Lister, RouteScan, quiet, scan_download, scan_upload
from path_mapping.planning.space import SpaceNeed, free_space, shortages
from path_mapping.planning.spool import Spool

MOST_KEPT = 1000  # refusals and notices that are kept; all are counted


@dataclass(frozen=True)
class UploadChoice:
    """Which files of the outputs go now, and in which order.

    `listed`: the target is looked at; else the record alone says what it has. `hurry`: there may be too
    little time, so the newest and smallest go first. `wanted` says whether a file may go.
    """

    listed: bool = True
    hurry: bool = False
    wanted: Callable[[Path, LocalEntry], bool] = lambda path, local: True


class _Todo(NamedTuple):
    """A step that is to be done, of a route by its number."""

    route: int
    action: str
    name: str
    size: int
    etag: str
    mtime_ns: int


@dataclass
class Totals:
    """How many files and bytes each action has, and how many files are the same on both sides."""

    files: Dict[str, int] = field(default_factory=Counter)
    bytes: Dict[str, int] = field(default_factory=Counter)
    same: int = 0

    def add(self, step: Step) -> None:
        """Counts a step."""
        self.files[step.action] += 1
        self.bytes[step.action] += step.size
        if step.action == SKIP and step.local is not None and not step.name.endswith("/"):
            self.same += not step.local.problem


class PreparedTransfer:
    """What is to be done for some routes: read as often as one likes, and told what was done.

    `refused` has the objects that can be no files, `blocked` the files that cannot be moved as they are here,
    `notices` what is left out and worth a word: at most 1,000 of each. `missing` are the routes with nothing
    at their source. `unrecorded` are the directories, each with its route's root, that have whole files which
    an earlier run did not record: it was ended there.
    """

    def __init__(
        self, opened: Sequence[Optional[RouteScan]], routes: Sequence[Route], check: Check = quiet
    ) -> None:
        self.missing = tuple(route for route, one in zip(routes, opened) if one is None)
        self.refused: List[Failure] = []
        self.blocked: List[Failure] = []
        self.notices: List[str] = []
        self.totals = Totals()
        self.needs: Dict[Path, SpaceNeed] = {}
        self.unrecorded: Set[Tuple[Path, Path]] = set()
        self._opened = opened
        self._todo: Spool[_Todo] = Spool()
        for number, one in enumerate(opened):
            if one is not None:
                self._take(number, one, check)

    def _take(self, number: int, one: RouteScan, check: Check) -> None:
        learned: Spool[RecordEntry] = Spool()
        need = SpaceNeed()
        for step in one.steps:
            check()
            self.totals.add(step)
            local = step.local
            if step.action in (COPY, MAKE, DELETE):
                mtime_ns = local.mtime_ns if local is not None else 0
                self._todo.add(_Todo(number, step.action, step.name, step.size, step.etag, mtime_ns))
            if step.action == COPY:
                need = need.plus(
                    step.size, local.size if local is not None and local.kind == "file" else None
                )
            elif step.learned and local is not None:
                self.unrecorded.add(((one.ends.root / step.name).parent, one.ends.root))
                learned.add(
                    RecordEntry(step.name, local.size, local.mtime_ns, step.etag.strip('"'), step.md5)
                )
            elif step.action == REFUSE or (local is not None and local.problem):
                self._tell(one.ends, step)
        self.needs[one.ends.local] = need
        for entry in learned:
            one.record.put(entry)
        learned.close()

    def _tell(self, ends: Ends, step: Step) -> None:
        if step.action == SKIP and len(self.notices) < MOST_KEPT:
            self.notices.append(f"{shown(ends.root / step.name)} is left out: {step.reason}")
        elif step.action == REFUSE:
            url = f"obs://{ends.bucket}/{printable(ends.key_of(step.name))}"
            failure = Failure(shown(ends.root / step.name), url, PathMappingError(step.reason))
            several = self.refused if step.local is None else self.blocked
            if len(several) < MOST_KEPT:
                several.append(failure)

    @property
    def files(self) -> int:
        """How many are to be copied."""
        return self.totals.files[COPY]

    @property
    def size(self) -> int:
        """How many bytes are to be copied."""
        return self.totals.bytes[COPY]

    def copies(self) -> Iterator[Copy]:
        """What is to be copied, in the order of the routes and their keys."""
        return (self._copy(todo) for todo in self._todo if todo.action == COPY)

    def newest_first(self) -> Iterator[Copy]:
        """The same, what matters most first: see `urgency`. For some time that may not be enough."""
        todo = [todo for todo in self._todo if todo.action == COPY]
        newest = max((one.mtime_ns for one in todo), default=0)
        todo.sort(key=lambda one: urgency(one.size, newest - one.mtime_ns))
        return map(self._copy, todo)

    def _copy(self, todo: _Todo) -> Copy:
        ends = self._one(todo.route).ends
        return Copy(
            ends.root / todo.name,
            ends.root,
            ends.bucket,
            ends.key_of(todo.name),
            todo.size,
            todo.etag,
            todo.route,
            todo.mtime_ns,
        )

    def _one(self, number: int) -> RouteScan:
        one = self._opened[number]
        assert one is not None, "only what was found has steps"
        return one

    def targets(self) -> Iterator[Path]:
        """The directories that the routes are: an input that is empty exists too."""
        return (one.ends.root for one in self._opened if one is not None and not one.ends.single)

    def directories(self) -> Iterator[Copy]:
        """Empty directories to be made: here, or there as `name/`."""
        return (self._copy(todo) for todo in self._todo if todo.action == MAKE)

    def deletions(self) -> Iterator[Copy]:
        """What the other side no longer has."""
        return (self._copy(todo) for todo in self._todo if todo.action == DELETE)

    def fetched(self, copy: Copy) -> None:
        """The file is whole at its place: the next run need not fetch it."""
        one, local = self._one(copy.route), look(copy.local)
        if local is not None and copy.etag:
            md5 = md5_of(chunks(copy.local)) if one.route.checksum else ""
            name = one.ends.name_of(copy)
            one.record.put(RecordEntry(name, local.size, local.mtime_ns, copy.etag.strip('"'), md5))

    def sent(self, copy: Copy, etag: str = "") -> None:
        """The file is in OBS, with this ETag where the answer had one."""
        one = self._one(copy.route)
        one.record.put(RecordEntry(one.ends.name_of(copy), copy.size, copy.mtime_ns, etag.strip('"')))

    def deleted(self, copy: Copy) -> None:
        """It is gone on both sides."""
        one = self._one(copy.route)
        one.record.forget([one.ends.name_of(copy)])

    def close(self) -> None:
        """Writes the records and gives everything back."""
        for one in self._opened:
            if one is not None:
                one.record.close()
        self._todo.close()


def urgency(size: int, age_ns: int) -> Tuple[int, int]:
    """What sorts first is sent first: by age in steps that double from a minute, within a step the smallest.

    `age_ns` is that beside the newest file: so the metadata of the last checkpoint goes before its weights,
    and both before an old log, however small.
    """
    return int(math.log2(max(age_ns, 0) / 60e9 + 1)), size


def prepare_downloads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    part: Shard = Shard(),  # noqa: B008 -- a frozen value
    check: Check = quiet,
) -> PreparedTransfer:
    """All inputs; raises before anything is written.

    `MissingInputs` for required ones that do not exist, `UnsafeTarget` for keys that cannot be files, and
    `NoSpace`.
    """
    _refuse_overlaps(PathMapping(_absolute(routes, base), ()))
    opened = [scan_download(route, base, lister, part, check) for route in routes]
    missing = [str(route.remote) for route, one in zip(routes, opened) if one is None and route.required]
    if missing:
        raise MissingInputs(missing)
    prepared = PreparedTransfer(opened, routes, check)
    try:
        if prepared.refused:
            raise UnsafeTarget([f"{one.target}: {one.error}" for one in prepared.refused])
        problems = shortages(prepared.needs, {path: free_space(path) for path in prepared.needs})
        if problems:
            raise NoSpace(problems)
    except BaseException:
        prepared.close()
        raise
    return prepared


def prepare_uploads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    choice: UploadChoice = UploadChoice(),
    check: Check = quiet,
) -> PreparedTransfer:
    """All outputs; what cannot be sent is in `blocked`, and keeps nothing else back."""
    _refuse_overlaps(PathMapping((), tuple(routes)))
    notices: List[str] = []
    looking = lister if choice.listed else None
    opened = [scan_upload(one, base, looking, notices.append, choice.wanted, check) for one in routes]
    prepared = PreparedTransfer(opened, routes, check)
    prepared.notices[:0] = notices
    return prepared


def _absolute(routes: Iterable[Route], base: Path) -> Tuple[Route, ...]:
    return tuple(Route(str(route.path(base)), route.remote) for route in routes)


def _refuse_overlaps(mapping: PathMapping) -> None:
    problems = overlaps(mapping)
    if problems:
        raise UnsafeTarget(problems)
