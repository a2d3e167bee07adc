"""What is to be copied where: routes and listings to a list of copies. Pure, but for looking at the disk."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from path_mapping.config import Route
from path_mapping.errors import Failure, PathMappingError
from path_mapping.local_file import is_temporary
from path_mapping.store import StoredObject

LONGEST_NAME = 255


@dataclass(frozen=True)
class Copy:
    """One file to move: the local path, which lies in `root`, and the object with its listed ETag."""

    local: Path
    root: Path
    bucket: str
    key: str
    size: int
    etag: str = ""

    @property
    def url(self) -> str:
        """The object's place."""
        return f"obs://{self.bucket}/{self.key}"


def local_path(route: Route, base: Path) -> Path:
    """The route's local path; a relative one starts at `base`."""
    return Path(os.path.normpath(base / route.local))


def downloads(
    route: Route, objects: Sequence[StoredObject], base: Path, problems: List[str]
) -> Optional[Tuple[Copy, ...]]:
    """The copies of one input, None where it does not exist; keys that cannot be files go to `problems`.

    A URL that ends in `/` is a directory; else an object of exactly this key is a file; else what lies
    below `key/` is a directory. So `data` never takes `data2`. A file whose local path ends in `/` goes
    into that directory (the rules of X2MindSpore's path mapping, and of its tests).
    """
    bucket, key = route.remote.bucket, route.remote.key
    exact = next((found for found in objects if found.key == key), None)
    if exact is not None and key and not key.endswith("/"):
        target = local_path(route, base)
        if route.local.endswith("/"):
            target = target / PurePosixPath(key).name
        return (Copy(target, target.parent, bucket, key, exact.size, exact.etag),)
    prefix = key if not key or key.endswith("/") else key + "/"
    below = [found for found in objects if found.key.startswith(prefix)]
    if not below:
        return None
    root = local_path(route, base)
    return tuple(_below(root, bucket, prefix, below, problems))


def _below(
    root: Path, bucket: str, prefix: str, objects: Sequence[StoredObject], problems: List[str]
) -> Iterator[Copy]:
    """The files of a directory; `key/` of no bytes only marks one, and is left out."""
    for found in objects:
        name = found.key[len(prefix) :]
        if not name or (name.endswith("/") and found.size == 0):
            continue
        problem = unsafe(name)
        if problem:
            problems.append(f"obs://{bucket}/{found.key}: {problem}")
        else:
            yield Copy(root / name, root, bucket, found.key, found.size, found.etag)


def clashes(copies: Sequence[Copy]) -> Iterator[str]:
    """The problems of copies, of all routes, that would be one file, or would lie below a file."""
    files: Dict[Path, Copy] = {}
    for copy in copies:
        if copy.local in files:
            yield f"{copy.url}: {copy.local} is {files[copy.local].url} already"
        else:
            files[copy.local] = copy
    for copy in copies:
        parent = next((parent for parent in copy.local.parents if parent in files), None)
        if parent is not None:
            yield f"{copy.url}: {parent} is a file, not a directory"


def distinct(copies: Sequence[Copy], failures: List[Failure]) -> List[Copy]:
    """The uploads without those to an object that an earlier one is for: these are failures."""
    objects: Dict[str, Copy] = {}
    for copy in copies:
        first = objects.setdefault(copy.url, copy)
        if first is not copy:
            error = PathMappingError(f"{first.local} is uploaded to it already")
            failures.append(Failure(str(copy.local), copy.url, error))
    return list(objects.values())


def unsafe(name: str) -> Optional[str]:
    """Why a key must not be a file's path below its target; None when it may.

    Keys are arbitrary: anybody who may write to the bucket chooses them.
    """
    parts = name.split("/")
    if "\0" in name:
        return "a NUL character"
    if any(part == "" for part in parts):
        return "an empty part between two '/', or a '/' at an end"
    if any(part in (".", "..") for part in parts):
        return "a part that is '.' or '..'"
    try:
        longest = max(len(os.fsencode(part)) for part in parts)
    except UnicodeEncodeError:
        return "a character that a file name here cannot have"
    return f"a part longer than {LONGEST_NAME} bytes" if longest > LONGEST_NAME else None


def uploads(route: Route, base: Path, failures: List[Failure]) -> Optional[Tuple[Copy, ...]]:
    """The copies of one output, None where nothing is at its local path; the disk decides what it is.

    A directory goes below the URL; a file gets exactly the URL's key, or its own name below a URL that ends
    in `/`. Links that lead out of the directory, or to nothing, are a failure each, not followed; links
    inside of it are files, or directories that are uploaded anyway. Names that are not UTF-8 are failures,
    as no key can have them. Sockets, pipes, devices and unfinished downloads are left out: they hold no
    content.
    """
    local = local_path(route, base)
    bucket, key = route.remote.bucket, route.remote.key
    try:
        status = os.stat(local)
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not local.is_symlink():
            return None
        failures.append(Failure(shown(local), str(route.remote), error))
        return ()
    if stat.S_ISREG(status.st_mode):
        file_key = key + local.name if key.endswith("/") or not key else key
        return (Copy(local, local.parent, bucket, file_key, status.st_size),)
    if not stat.S_ISDIR(status.st_mode):
        failures.append(
            Failure(shown(local), str(route.remote), PathMappingError("neither file nor directory"))
        )
        return ()
    prefix = key if not key or key.endswith("/") else key + "/"
    copies = []
    for path in _tree(local, failures):
        try:
            size = path.stat().st_size
            name = path.relative_to(local).as_posix()
            name.encode("utf-8")
        except (OSError, UnicodeEncodeError) as error:  # gone since it was listed, or not ours to see
            failures.append(Failure(shown(path), "", error))
        else:
            copies.append(Copy(path, local, bucket, prefix + name, size))
    return tuple(copies)


def shown(path: Path) -> str:
    """The path as text that can be printed, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _tree(root: Path, failures: List[Failure]) -> Iterator[Path]:
    """The files to upload, by name."""
    inside = os.path.realpath(root) + os.sep

    def unreadable(error: OSError) -> None:
        failures.append(Failure(shown(Path(error.filename)), "", error))

    for directory, directories, names in os.walk(root, onerror=unreadable):
        directories.sort()
        links = [name for name in directories if Path(directory, name).is_symlink()]
        for path in (Path(directory, name) for name in sorted([*names, *links])):
            problem = _link_problem(path, inside) if path.is_symlink() else None
            if problem:
                failures.append(Failure(shown(path), "", PathMappingError(problem)))
            elif path.is_file() and not is_temporary(path.name):
                yield path


def _link_problem(path: Path, inside: str) -> Optional[str]:
    real = os.path.realpath(path)
    if not real.startswith(inside):
        return f"a link out of the output, to {shown(Path(real))}"
    return None if os.path.exists(path) else f"a link to nothing, {shown(Path(real))}"
