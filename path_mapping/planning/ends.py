"""The two ends of a route: which local file belongs to which object. Pure."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Iterable, Iterator, NamedTuple, Optional, Tuple

from path_mapping.mapping import Route
from path_mapping.stores import StoredObject


class Copy(NamedTuple):
    """One file to copy: the local path, which is inside `root`, and the object.

    Both as text, which takes a tenth of the time of a `Path`; there may be a million.

    `etag` is the object's, as it was listed; `route` is the index of the route. `mtime_ns` is that of a file
    to upload, in nanoseconds.
    """

    path: str
    root: str
    bucket: str
    key: str
    size: int
    etag: str = ""
    route: int = 0
    mtime_ns: int = 0

    @property
    def local(self) -> Path:
        """The local path."""
        return Path(self.path)

    @property
    def url(self) -> str:
        """The object's URL."""
        return f"obs://{self.bucket}/{self.key}"


class Ends(NamedTuple):
    """A file is at `root` plus its name, its object at `prefix` plus its name.

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
    key = route.remote.key
    return Ends(route.path(base), route.remote.bucket, key if not key or key.endswith("/") else f"{key}/")


def uploaded_file_ends(route: Route, base: Path) -> Ends:
    """The ends of an output that is a file: its key is the URL's, plus its own name if that ends in `/`."""
    local, key = route.path(base), route.remote.key
    if not key or key.endswith("/"):
        key += local.name
    return Ends(local.parent, route.remote.bucket, key, local.name)


Objects = Iterator[Tuple[str, StoredObject]]


def find_input(route: Route, listed: Iterable[StoredObject], base: Path) -> Optional[Tuple[Ends, Objects]]:
    """The ends of an input, and its objects with their names. None if nothing exists at its URL.

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
    found = next(below, None)
    return None if found is None else (ends, chain([found], below))


def _below(prefix: str, listed: Iterable[StoredObject]) -> Objects:
    for found in listed:
        if found.key.startswith(prefix):
            yield found.key[len(prefix) :], found
        elif found.key > prefix:
            return  # keys are in order: no later one starts with the prefix
