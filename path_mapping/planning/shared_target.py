"""URLs to which several writers upload: no writer replaces an object that another one has written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Callable

from path_mapping.mapping.routes import Route
from path_mapping.planning.plan import Ends, unquote_etag
from path_mapping.stores.objects import Copy, StoredObject

# Directory below an output's URL that has a directory for each writer.
CONFLICTS = "conflicts"

HasContent = Callable[[Copy], bool]
"""Predicate: the object that exists at the key of a copy has the content of its file."""


def conflict_key(ends: Ends, key: str, writer: str) -> str:
    """The key for a file whose own key has an object of another writer: `URL/conflicts/WRITER/NAME`."""
    below = ends.prefix.rpartition("/")[0] if ends.single else ends.prefix.rstrip("/")
    name = ends.prefix.rpartition("/")[2] if ends.single else ends.name_of(key)
    return "/".join([*filter(None, [below]), CONFLICTS, writer, name])


class SharedTarget:
    """One writer's knowledge of the objects at URLs that other writers use, too.

    An object may be replaced if it is unchanged since before the job (`note`), or if this writer has written
    it. All others belong to another writer: a file with other content is diverted to `conflicts/WRITER/`.
    Listings do not have the writer of an object, so its ETag identifies it.

    `announce` is called with True before this writer compares objects to replace them, and with False after
    its last request.
    """

    def __init__(
        self, routes: Collection[Route], writer: str, announce: Callable[[bool], None] = lambda writing: None
    ) -> None:
        self._urls = {route.remote for route in routes}
        self._writer = writer
        self._announce = announce
        # Hashes of states, not the states: a million of them take 60 MB.
        self._replaceable: set[int] = set()
        # By the local path.
        self._diverted: dict[str, Copy] = {}

    def has(self, route: Route) -> bool:
        """Tells whether other writers upload to this output's URL."""
        return route.remote in self._urls

    def note(self, bucket: str, objects: Iterable[StoredObject]) -> None:
        """Notes objects that exist before the job writes any."""
        self._replaceable.update(hash((bucket, stored.key, unquote_etag(stored.etag))) for stored in objects)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Announces that this writer may replace objects during the block."""
        self._announce(True)
        try:
            yield
        finally:
            self._announce(False)

    def redirected(
        self, copy: Copy, ends: Ends, has_content: HasContent, others_done: bool
    ) -> tuple[Copy | None, Copy | None]:
        """Returns the copy to make, if any, and an earlier diverted one whose object is no longer needed.

        `others_done`: no writer writes to the keys of files any more, so a file whose object differs is
        diverted, regardless of its writer.
        """
        if not others_done and (not copy.etag or _state(copy) in self._replaceable):
            return copy, self._diverted.pop(copy.path, None)
        if copy.etag and has_content(copy):
            return None, self.same(copy.path)
        earlier = self._diverted.get(copy.path)
        if earlier is not None and (earlier.size, earlier.mtime_ns) == (copy.size, copy.mtime_ns):
            return None, None
        return copy._replace(key=conflict_key(ends, copy.key, self._writer), etag=""), None

    def same(self, path: str) -> Copy | None:
        """Notes that a file's object has its content; returns an earlier diverted copy of it."""
        return self._diverted.pop(path, None)

    def wrote(self, copy: Copy, diverted: bool) -> None:
        """Notes a copy that was made, with the ETag of its object."""
        if diverted:
            self._diverted[copy.path] = copy
        else:
            self._replaceable.add(_state(copy))

    @property
    def diverted(self) -> list[Copy]:
        """The diverted copies, in the order of their keys."""
        return sorted(self._diverted.values(), key=lambda copy: (copy.bucket, copy.key))


def _state(copy: Copy) -> int:
    return hash((copy.bucket, copy.key, unquote_etag(copy.etag)))
