"""What bubblewrap is asked for: the platform's directories at their real paths, small disks. Pure."""

from __future__ import annotations

import os.path
from typing import Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.modelarts import PLATFORM_GID, PLATFORM_UID

EXACT = ("/home/ma-user", "/cache", "/user/config")


class Entry(NamedTuple):
    """A name in a directory of this machine; `link` is where it leads if it is a symbolic link."""

    name: str
    link: Optional[str]


def small_disks(rooms: Mapping[str, int]) -> Tuple[str, ...]:
    """Bubblewrap's options: everything as it is, but these directories are empty disks of so many bytes."""
    return ("--dev-bind", "/", "/", *_rooms(rooms))


def exact_paths(
    node_root: str, rooms: Mapping[str, int], listed: Callable[[str], Sequence[Entry]]
) -> Tuple[str, ...]:
    """Bubblewrap's options: `/home/ma-user`, `/cache` and `/user/config` are those below `node_root`, the
    rest is this machine's, the user has the platform's numbers.

    `listed` lists a directory. What this machine has at those three paths is hidden.
    """
    user = ["--unshare-user", "--uid", str(PLATFORM_UID), "--gid", str(PLATFORM_GID)]
    options: List[str] = [*user, "--tmpfs", "/"]
    for option in _visible("/", listed):
        options += option
    for path in EXACT:
        options += ["--bind", node_root + path, path]
    return (*options, *_rooms(rooms))


def _visible(directory: str, listed: Callable[[str], Sequence[Entry]]) -> Iterator[Tuple[str, ...]]:
    for entry in listed(directory):
        path = os.path.join(directory, entry.name)
        if path in EXACT:
            continue
        if any(exact.startswith(path + "/") for exact in EXACT):
            yield from _visible(path, listed)
        elif entry.link is not None:
            yield ("--symlink", entry.link, path)
        else:
            yield ("--dev-bind", path, path)


def _rooms(rooms: Mapping[str, int]) -> Tuple[str, ...]:
    return tuple(
        word
        for path, size in rooms.items()
        for word in ("--perms", "0777", "--size", str(size), "--tmpfs", path)
    )
