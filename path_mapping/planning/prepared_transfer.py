"""Decisions about the files of a transfer, made before the first byte; and the record of its results."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from path_mapping.errors import Failure, printable
from path_mapping.localfs.names import shown
from path_mapping.localfs.source_file import chunks, md5_of
from path_mapping.mapping.routes import Route
from path_mapping.planning.local_tree import local_entry
from path_mapping.planning.plan import (
    COPY,
    DELETE,
    MAKE,
    REFUSE,
    SKIP,
    Ends,
    RecordEntry,
    Step,
    unquote_etag,
)
from path_mapping.planning.route_scan import Check, RouteScan
from path_mapping.planning.shared_target import HasContent, SharedTarget
from path_mapping.planning.spool import Spool
from path_mapping.stores.objects import Copy

# Refusals, blocked files and notices that are kept of each kind; a bucket may have a million of them.
MOST_KEPT = 1000


class EmptyRoute(NamedTuple):
    """A route whose source gives no file; `why` names the patterns, and is empty if there are no files."""

    route: Route
    why: str


class Findings:
    """Files that a transfer cannot move or leaves out: at most 1,000 of each kind.

    `refused` are objects that cannot be files. `blocked` are files that cannot be moved because of their
    state on the disk. `notices` are messages about everything else that is left out.
    """

    def __init__(self) -> None:
        self.refused: list[Failure] = []
        self.blocked: list[Failure] = []
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        """Adds a notice, if there are not too many."""
        if len(self.notices) < MOST_KEPT:
            self.notices.append(text)

    def add(self, ends: Ends, step: Step) -> None:
        """Adds a step that refuses or leaves out a file."""
        path = shown(ends.root / step.name)
        if step.action == SKIP:
            self.notice(f"{path}: {step.reason}" if step.named else f"{path} is left out: {step.reason}")
        elif step.action == REFUSE:
            url = f"obs://{ends.bucket}/{printable(ends.key_of(step.name))}"
            failures = self.refused if step.local is None else self.blocked
            if len(failures) < MOST_KEPT:
                failures.append(Failure(path, url, OSError(step.reason)))


class Diversions:
    """Decisions about copies to URLs that other writers use; without a shared `target` there are none.

    `diverted` are the paths of files that get another key, `stale` are earlier diverted copies whose objects
    are no longer needed. `spared` files of `spared_bytes` are in OBS already, written by another writer.
    `has_content` and `others_done` are for `SharedTarget.redirected`.
    """

    def __init__(
        self,
        target: SharedTarget | None = None,
        has_content: HasContent = lambda copy: False,
        others_done: bool = False,
    ) -> None:
        self._target, self._has_content, self._others_done = target, has_content, others_done
        self.diverted: set[str] = set()
        self.stale: list[Copy] = []
        self.spared = self.spared_bytes = 0

    def redirect(self, copy: Copy, scan: RouteScan) -> Copy | None:
        """Returns the copy with the key that it goes to, None if the object has its content already."""
        if self._target is None or not self._target.has(scan.route):
            return copy
        redirected, stale = self._target.redirected(
            copy, scan.ends, self._has_content, others_done=self._others_done
        )
        self._add_stale(stale)
        if redirected is None:
            self.spared += 1
            self.spared_bytes += copy.size
        elif redirected.key != copy.key:
            self.diverted.add(copy.path)
        return redirected

    def note_same(self, path: str) -> None:
        """Notes that the object at the file's own key has its content."""
        if self._target is not None:
            self._add_stale(self._target.same(path))

    def _add_stale(self, copy: Copy | None) -> None:
        if copy is not None:
            self.stale.append(copy)


class PreparedTransfer:
    """Everything to be done for some routes, readable as often as needed, and the record of what was done.

    `copies` are to be copied, in the order of the routes and their keys, `files` of them with `size` bytes;
    `same` files are the same on both sides. `directories` are empty ones to make: here, or in OBS as `name/`.
    `deletions` are files that the other side no longer has. `missing` are the routes with nothing at their
    source. `unrecorded` are directories, each with the root of its route, with complete files that an earlier
    run did not record, because it was killed.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        scans: Sequence[RouteScan | None],
        check: Check,
        diversions: Diversions | None = None,
    ) -> None:
        self.missing = tuple(route for route, scan in zip(routes, scans) if scan is None)
        self.findings = Findings()
        self.diversions = diversions or Diversions()
        self.unrecorded: set[tuple[str, str]] = set()
        self.copies: Spool[Copy] = Spool()
        self.directories: Spool[Copy] = Spool()
        self.deletions: Spool[Copy] = Spool()
        self._scans = {index: scan for index, scan in enumerate(scans) if scan is not None}
        for index, scan in self._scans.items():
            self._read(index, scan, check)
        spared, spared_bytes = self.diversions.spared, self.diversions.spared_bytes
        self.files = sum(scan.files[COPY] for scan in self._scans.values()) - spared
        self.size = sum(scan.bytes[COPY] for scan in self._scans.values()) - spared_bytes
        self.same = sum(scan.same for scan in self._scans.values()) + spared

    def _read(self, index: int, scan: RouteScan, check: Check) -> None:
        """Reads the steps of a route, once."""
        learned: Spool[RecordEntry] = Spool()
        root = str(scan.ends.root)
        for step in scan:
            check()
            if step.action in (COPY, MAKE, DELETE):
                self._add(step, scan, index)
                continue
            if step.etag and step.local is not None:
                self.diversions.note_same(os.path.join(root, step.name))
            if step.learned and step.local is not None:
                self.unrecorded.add((os.path.dirname(os.path.join(root, step.name)), root))
                size, mtime_ns = step.local.size, step.local.mtime_ns
                learned.add(RecordEntry(step.name, size, mtime_ns, unquote_etag(step.etag), step.md5))
            elif step.action == REFUSE or step.named or (step.local is not None and step.local.problem):
                self.findings.add(scan.ends, step)
        # Only now: the steps are made from the record, which is read along with them.
        for entry in learned:
            scan.record.put(entry)
        learned.close()

    def _add(self, step: Step, scan: RouteScan, index: int) -> None:
        """Adds a step that changes the other side."""
        root = str(scan.ends.root)
        copy = Copy(
            path=os.path.join(root, step.name),
            root=root,
            bucket=scan.ends.bucket,
            key=scan.ends.key_of(step.name),
            size=step.size,
            etag=step.etag,
            route=index,
            mtime_ns=step.local.mtime_ns if step.local is not None else 0,
        )
        if step.action == COPY:
            redirected = self.diversions.redirect(copy, scan)
            if redirected is not None:
                self.copies.add(redirected)
        else:
            (self.directories if step.action == MAKE else self.deletions).add(copy)

    def unselected_inputs(self) -> list[EmptyRoute]:
        """The inputs whose patterns select none of their objects."""
        scans = self._scans.values()
        return [EmptyRoute(scan.route, scan.why_nothing("object")) for scan in scans if scan.selects_nothing]

    def empty_outputs(self) -> tuple[EmptyRoute, ...]:
        """The outputs without a file to upload, except those of which an earlier upload has sent a file."""
        return tuple(
            EmptyRoute(scan.route, scan.why_nothing("file") if scan.selects_nothing else "")
            for scan in self._scans.values()
            if (scan.selects_nothing or scan.is_empty) and not scan.has_sent()
        )

    def newest_first(self) -> Iterator[Copy]:
        """The copies, the most urgent first, for when there may not be enough time."""
        newest = max((copy.mtime_ns for copy in self.copies), default=0)
        return self.copies.in_order_of(lambda copy: urgency(copy.size, newest - copy.mtime_ns))

    def targets(self) -> Iterator[Path]:
        """The local directories of the routes: even an empty input is created."""
        return (scan.ends.root for scan in self._scans.values() if not scan.ends.single)

    def downloaded(self, copy: Copy, checked: bool) -> None:
        """Records that the file is complete, so that the next run does not download it.

        If its content was not `checked`, its MD5 is not recorded: it need not be the object's.
        """
        scan, local = self._scans[copy.route], local_entry(copy.path)
        if local is not None and copy.etag:
            md5 = md5_of(chunks(copy.local)) if scan.route.checksum and checked else ""
            name = scan.ends.name_of(copy.key)
            scan.record.put(RecordEntry(name, local.size, local.mtime_ns, unquote_etag(copy.etag), md5))

    def uploaded(self, copy: Copy) -> None:
        """Records that the file is in OBS, in the state and with the ETag that `copy` has."""
        scan = self._scans[copy.route]
        name = scan.ends.name_of(copy.key)
        scan.record.put(RecordEntry(name, copy.size, copy.mtime_ns, unquote_etag(copy.etag)))

    def forget(self, copy: Copy) -> None:
        """Removes the file from the record: it is gone on both sides, or the content in OBS is unknown."""
        scan = self._scans[copy.route]
        scan.record.forget(scan.ends.name_of(copy.key))

    def close(self) -> None:
        """Writes the records and frees memory and disk."""
        for scan in self._scans.values():
            scan.record.close()
        for spool in (self.copies, self.directories, self.deletions):
            spool.close()


def urgency(size: int, age_ns: int) -> tuple[int, int]:
    """The sort key of an urgent upload: by age in steps that double from a minute, then by size.

    `age_ns` is relative to the newest file, in nanoseconds. So the metadata of the last checkpoint goes
    before its weights, and both go before an old log, however small.
    """
    return int(math.log2(max(age_ns, 0) / 60e9 + 1)), size
