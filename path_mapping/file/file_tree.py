"""Looks up, lists, creates and removes files and directories, on local paths and in OBS."""

from __future__ import annotations

import fnmatch
import glob as local_globbing
import os
import posixpath
import re
import shutil
import threading
from pathlib import Path
from typing import Any, Iterator, NamedTuple, cast

from path_mapping.errors import NotFound, StoreError, Unreachable, UnsafeTarget
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.objects import ObjectState
from path_mapping.stores.open_store import open_store
from path_mapping.workers.retry import RetriedStore

# Environment variable: a directory in place of OBS, as in a rehearsal.
OBS_ROOT = "PATH_MAPPING_OBS_ROOT"

_local = threading.local()
_settings: dict[str, str] = {}


def set_auth(
    ak: str | None = None,
    sk: str | None = None,
    server: str | None = None,
    port: int | None = None,
    is_secure: bool = True,
    **_: Any,
) -> None:
    """Sets the credentials and the server for all threads of this process.

    Values that are not given come from the environment. With given keys, neither OBS_SECURITY_TOKEN nor
    OBS_CREDENTIALS_FILE is used.
    """
    global _local
    given = {"OBS_ACCESS_KEY_ID": ak, "OBS_SECRET_ACCESS_KEY": sk}
    if server is not None:
        host = server.partition("://")[2] or server
        given["OBS_ENDPOINT"] = f"{'https' if is_secure else 'http'}://{host}" + (f":{port}" if port else "")
    if ak is not None or sk is not None:
        given.update(OBS_SECURITY_TOKEN="", OBS_CREDENTIALS_FILE="")
    _settings.update({name: value for name, value in given.items() if value is not None})
    _local = threading.local()


def store() -> RetriedStore:
    """Returns this thread's store: the directory PATH_MAPPING_OBS_ROOT, or OBS by the environment.

    Its requests are retried; `store().store` is the one for transfers, which retry by themselves.

    Each process and thread has its own, because the SDK's connections must not be shared after a fork. Raises
    `CredentialsMissing` if the environment names neither a directory nor OBS.
    """
    local = _local  # once: `set_auth` in another thread may replace it meanwhile
    if getattr(local, "owner", None) != os.getpid():
        environ = {name: value for name, value in {**os.environ, **_settings}.items() if value}
        root = environ.get(OBS_ROOT)
        local.store = RetriedStore(open_store(environ, Path(root) if root else None))
        local.owner = os.getpid()
    return cast(RetriedStore, local.store)


MoxFileRespException = StoreError
MoxFileReadException = Unreachable
MoxFileNameDuplicateException = UnsafeTarget


class MoxFileNotExistsException(NotFound, FileNotFoundError):
    """No such file, object or directory."""


class Stat(NamedTuple):
    """A file or directory: its length in bytes, its mtime in nanoseconds since the epoch."""

    length: int
    mtime_nsec: int
    is_directory: bool


def url_of(path: str | os.PathLike[str]) -> ObsUrl | None:
    """Returns the URL with repeated slashes merged into one; None for a local path.

    Raises `ValueError` if the URL has no bucket, or is otherwise invalid.
    """
    text = os.fspath(path)
    match = re.match(r"(?:obs|s3)://", text)
    if match is None:
        return None
    return ObsUrl.parse(match.group() + re.sub("/+", "/", text[match.end() :].lstrip("/")))


def exists(url: str, **_: Any) -> bool:
    """Tells whether a file, an object or a directory exists."""
    place = url_of(url)
    if place is None:
        return os.path.exists(url)
    return is_object(place) or _is_prefix(place)


def is_directory(url: str, **_: Any) -> bool:
    """Tells whether a path is a local directory, or a URL with any object below it."""
    place = url_of(url)
    return os.path.isdir(url) if place is None else _is_prefix(place)


def stat(url: str, **_: Any) -> Stat:
    """Returns the size, time and kind of a file or directory.

    Raises `MoxFileNotExistsException` if neither exists.
    """
    place = url_of(url)
    if place is None:
        try:
            local = os.stat(url)
        except FileNotFoundError as error:
            raise missing(url) from error
        return Stat(local.st_size, local.st_mtime_ns, os.path.isdir(url))
    known = state_of_object(place)
    if known is not None:
        return Stat(known.size, known.mtime_ns, False)
    if _is_prefix(place):
        return Stat(0, 0, True)
    raise missing(url)


def status(path: str, **_: Any) -> os.stat_result:
    """Returns the result of `stat` in the form of `os.stat`."""
    known = stat(path)
    mode, seconds = 0o040750 if known.is_directory else 0o100640, known.mtime_nsec // 10**9
    return os.stat_result((mode, 0, 0, 1, 0, 0, known.length, seconds, seconds, seconds))


def get_size(url: str, recursive: bool = False, **_: Any) -> int:
    """Returns the size of a file in bytes; of a directory 0, or with `recursive` that of all files below it.

    A local directory is always summed up. Raises `MoxFileNotExistsException` if there is no such file or
    directory.
    """
    place, state = url_of(url), stat(url)
    if not state.is_directory:
        return state.length
    if place is None:
        below = (os.path.join(top, name) for top, _, names in os.walk(url) for name in names)
        return sum(os.path.getsize(path) for path in below if os.path.exists(path))
    return sum(stored.size for stored in store().list(place.bucket, place.prefix)) if recursive else 0


def list_directory(
    url: str,
    recursive: bool = False,
    remove_sep: bool = True,
    skip_file: bool = False,
    skip_dir: bool = False,
    **_: Any,
) -> list[str]:
    """Returns the names in a directory, sorted; with `recursive` the relative paths of everything below it.

    Names of directories end with `/` if `remove_sep` is false. Raises `MoxFileNotExistsException` if there is
    no such directory.
    """
    names: list[str] = []
    for top, directories, files in walk(url):
        base = os.fspath(top)[len(os.fspath(url).rstrip("/")) :].strip("/")
        if not skip_dir:
            names += [posixpath.join(base, name) + ("" if remove_sep else "/") for name in directories]
        if not skip_file:
            names += [posixpath.join(base, name) for name in files]
        if not recursive:
            break
    return sorted(names)


def walk(url: str, topdown: bool = True, **settings: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """Like `os.walk`. Raises `MoxFileNotExistsException` if there is no such directory."""
    place = url_of(url)
    if not is_directory(url):
        raise missing(url)
    if place is None:
        yield from os.walk(url, topdown, **settings)
        return
    directories: list[str] = []
    files: list[str] = []
    prefix = place.prefix
    for entry in store().level(place.bucket, prefix):
        name = entry.key[len(prefix) :]
        (directories if name.endswith("/") else files).append(name.rstrip("/"))
    top = url.rstrip("/")
    if topdown:
        yield top, directories, files
    for name in directories:
        yield from walk(f"{top}/{name}", topdown)
    if not topdown:
        yield top, directories, files


class Entry(NamedTuple):
    """One name in a directory, like `os.DirEntry`."""

    name: str
    path: str
    directory: bool

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        """True for a directory."""
        return self.directory

    def is_file(self, follow_symlinks: bool = True) -> bool:
        """True for a file."""
        return not self.directory

    def is_symlink(self) -> bool:
        """Always false: OBS has no symbolic links."""
        return False

    def stat(self, follow_symlinks: bool = True) -> os.stat_result:
        """The same as `os.stat(entry.path)`, after `shift`."""
        return status(self.path)

    def __fspath__(self) -> str:
        return self.path


class Entries(Iterator[Entry]):
    """Iterator of `scan_dir`, which may be closed early like that of `os.scandir`."""

    def __init__(self, entries: list[Entry]) -> None:
        self._left = iter(entries)

    def __next__(self) -> Entry:
        return next(self._left)

    def close(self) -> None:
        """Ends the iteration."""
        self._left = iter(())

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def scan_dir(url: str) -> Any:
    """Like `os.scandir`: an iterator of entries, and a context manager with `close`.

    Raises `MoxFileNotExistsException` if there is no such directory.
    """
    if url_of(url) is None:
        return os.scandir(url)
    _, directories, files = next(walk(url))
    listed = [(name, True) for name in directories] + [(name, False) for name in files]
    # Sorted by name and kind, as an object and a directory may have the same name.
    return Entries([Entry(name, posixpath.join(url, name), directory) for name, directory in sorted(listed)])


def glob(url: str) -> list[str]:
    """Returns the existing paths that match, sorted; a wildcard never matches a `/`."""
    place = url_of(url)
    if place is None:
        return sorted(local_globbing.glob(url))
    parts = place.key.rstrip("/").split("/")
    paths = [f"{url.partition('://')[0]}://{place.bucket}"]
    for part in parts:
        if any(letter in part for letter in "*?["):
            tops = [top for top in paths if is_directory(top)]
            names = [(top, name) for top in tops for name in list_directory(top)]
            paths = [f"{top}/{name}" for top, name in names if fnmatch.fnmatchcase(name, part)]
        else:
            paths = [f"{top}/{part}" for top in paths]
    return sorted(path for path in paths if exists(path))


def make_dirs(url: str, **_: Any) -> None:
    """Creates a directory and its parents; it may exist already."""
    place = url_of(url)
    if place is None:
        os.makedirs(url, exist_ok=True)
    elif not _is_prefix(place):
        store().write_bytes(place.bucket, place.prefix, b"")


def mk_dir(url: str, **_: Any) -> None:
    """Creates a directory; its parent must exist. Raises `FileNotFoundError` if there is no such parent."""
    place = url_of(url)
    if place is None:
        os.mkdir(url)
        return
    parent = posixpath.dirname(url.rstrip("/"))
    if posixpath.dirname(place.key.rstrip("/")) and not is_directory(parent):
        raise missing(parent)
    make_dirs(url)


def remove(url: str, recursive: bool = False, **_: Any) -> None:
    """Deletes a file; with `recursive` a directory and everything below it. It need not exist.

    Raises `ValueError` if the URL is a bucket: a bucket is never deleted.
    """
    place = url_of(url)
    if place is None:
        if os.path.isdir(url) and not os.path.islink(url):
            if recursive:
                shutil.rmtree(url)
        elif os.path.lexists(url):
            os.remove(url)
    elif is_object(place):
        store().delete(place.bucket, place.key)
    elif recursive:
        if not place.key:
            raise ValueError(f"found {url!r}, expected a path in the bucket: a whole bucket is not deleted")
        keys = [stored.key for stored in store().list(place.bucket, place.prefix)]
        store().delete_all(place.bucket, keys)


def state_of_object(place: ObsUrl) -> ObjectState | None:
    """Returns the state of the object with exactly this key; None without one, and for a directory."""
    if not place.key or place.key.endswith("/"):
        return None
    return store().find(place.bucket, place.key)


def is_object(place: ObsUrl) -> bool:
    """Tells whether there is an object with exactly this key."""
    return state_of_object(place) is not None


def _is_prefix(place: ObsUrl) -> bool:
    try:
        below = next(store().list(place.bucket, place.prefix), None)
    except NotFound:  # no such bucket
        return False
    return below is not None or not place.key


def missing(url: str) -> MoxFileNotExistsException:
    """Returns the error for a path that does not exist."""
    return MoxFileNotExistsException(f"{url}: no such file or directory")
