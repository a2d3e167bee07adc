"""What is to be copied where: routes and listings to a list of copies. Pure, but for looking at the disk."""

from __future__ import annotations

import os
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
    """One file to move: the local path, which lies in `root`, and the object."""

    local: Path
    root: Path
    bucket: str
    key: str
    size: int
    md5: Optional[str]

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
        return (Copy(target, target.parent, bucket, key, exact.size, exact.md5),)
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
    files: Dict[str, Copy] = {}
    for found in objects:
        name = found.key[len(prefix) :]
        if not name or (name.endswith("/") and found.size == 0):
            continue
        problem = unsafe(name)
        if problem:
            problems.append(f"obs://{bucket}/{found.key}: {problem}")
        else:
            files[name] = Copy(root / name, root, bucket, found.key, found.size, found.md5)
    for name in files:
        parents = [str(parent) for parent in PurePosixPath(name).parents]
        clash = next((parent for parent in parents if parent in files), None)
        if clash is not None:
            problems.append(f"obs://{bucket}/{prefix}{name}: {prefix}{clash} is a file, not a directory")
    yield from files.values()


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
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        return f"a part longer than {LONGEST_NAME} bytes"
    return None


def uploads(route: Route, base: Path, failures: List[Failure]) -> Optional[Tuple[Copy, ...]]:
    """The copies of one output, None where nothing is at its local path; the disk decides what it is.

    A directory goes below the URL; a file gets exactly the URL's key, or its own name below a URL that ends
    in `/`. Links that lead out of the directory are a failure each, not followed; links inside of it are
    files, or directories that are uploaded anyway. Sockets, pipes and unfinished downloads are left out.
    """
    local = local_path(route, base)
    bucket, key = route.remote.bucket, route.remote.key
    if local.is_file():
        file_key = key + local.name if key.endswith("/") or not key else key
        return (Copy(local, local.parent, bucket, file_key, local.stat().st_size, None),)
    if not local.is_dir():
        return None
    prefix = key if not key or key.endswith("/") else key + "/"
    copies = []
    for path in _tree(local, failures):
        try:
            size = path.stat().st_size
        except OSError as error:  # gone since it was listed, or not ours to see
            failures.append(Failure(str(path), "", error))
        else:
            copies.append(Copy(path, local, bucket, prefix + path.relative_to(local).as_posix(), size, None))
    return tuple(copies)


def _tree(root: Path, failures: List[Failure]) -> Iterator[Path]:
    """The files to upload, by name."""
    inside = os.path.realpath(root) + os.sep

    def unreadable(error: OSError) -> None:
        failures.append(Failure(str(error.filename), "", error))

    for directory, directories, names in os.walk(root, onerror=unreadable):
        directories.sort()
        links = [name for name in directories if Path(directory, name).is_symlink()]
        for path in (Path(directory, name) for name in sorted([*names, *links])):
            real = os.path.realpath(path)
            if path.is_symlink() and not real.startswith(inside):
                failures.append(
                    Failure(str(path), "", PathMappingError(f"a link out of the output, to {real}"))
                )
            elif path.is_file() and not is_temporary(path.name):
                yield path
