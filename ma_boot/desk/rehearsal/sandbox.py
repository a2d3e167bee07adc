"""A node in a mount namespace of its own, by bubblewrap: the platform's real paths, small disks.

As a program it runs a node in its sandbox, forwards stop signals to the node alone, and exits with its code:
`python -m ma_boot.desk.rehearsal.sandbox BWRAP-OPTIONS -- COMMAND`. Bubblewrap stays the parent of the node;
a signal to their common process group would end it: so it gets a group of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from ma_boot.errors import ConfigError
from ma_boot.processes.signals import SignalInbox, signal_process

PROGRAM = "bwrap"
EXACT = ("/home/ma-user", "/cache", "/user/config")
_WAIT_SECONDS = 3600.0


def check_installed(environ: Mapping[str, str], option: str) -> None:
    """Raises `ConfigError` if bubblewrap, which an option needs, is not on the PATH."""
    if shutil.which(PROGRAM, path=environ.get("PATH")) is None:
        raise ConfigError(f"{option} needs bubblewrap, which was not found: apt-get install bubblewrap")


def sandboxed(
    argv: Sequence[str], cwd: str, node_root: str, disks: Mapping[str, int], user: tuple[int, int] | None
) -> tuple[str, ...]:
    """The command that runs `argv` in the sandbox of a node.

    `disks` are directories of the platform that become empty file systems, and their sizes in bytes. With a
    `user` (the IDs of user and group) the node sees the platform's own paths, otherwise those below
    `node_root`.
    """
    if user is None:
        options = small_disks({node_root + path: size for path, size in disks.items()})
    else:
        options = exact_paths(node_root, disks, user)
    attach = (sys.executable, "-m", "ma_boot.desk.rehearsal.sandbox")
    return (*attach, *options, "--chdir", cwd, "--", *argv)


def small_disks(disks: Mapping[str, int]) -> tuple[str, ...]:
    """The options for a node that sees this machine as it is, except for small disks."""
    return ("--dev-bind", "/", "/", *_tmpfs(disks))


def exact_paths(
    node_root: str, disks: Mapping[str, int], user: tuple[int, int], machine: str = ""
) -> tuple[str, ...]:
    """The options for a node that sees the directories below `node_root` at their real paths.

    It runs as `user`. The rest is that of this machine, whose paths begin with `machine`; its own directories
    at those paths are hidden.
    """
    uid, gid = map(str, user)
    visible = [word for option in _visible(machine, "/") for word in option]
    bound = [word for path in EXACT for word in ("--bind", node_root + path, path)]
    return ("--unshare-user", "--uid", uid, "--gid", gid, "--tmpfs", "/", *visible, *bound, *_tmpfs(disks))


def _visible(machine: str, directory: str) -> Iterator[tuple[str, ...]]:
    with os.scandir(machine + directory) as entries:
        for entry in entries:
            path = os.path.join(directory, entry.name)
            if path in EXACT:
                continue
            if any(exact.startswith(path + "/") for exact in EXACT):
                yield from _visible(machine, path)
            elif entry.is_symlink():
                yield ("--symlink", os.readlink(entry.path), path)
            else:
                yield ("--dev-bind", path, path)


def _tmpfs(disks: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        word
        for path, size in disks.items()
        for word in ("--perms", "0777", "--size", str(size), "--tmpfs", path)
    )


def run_attached(options: Sequence[str], inbox: SignalInbox) -> int:
    """Runs bubblewrap to its end; returns the exit code of the command inside."""
    read, write = os.pipe()
    argv = [PROGRAM, "--die-with-parent", "--info-fd", str(write), *options]
    process = subprocess.Popen(argv, pass_fds=(write,), start_new_session=True)
    os.close(write)
    inside = _pid_inside(read)
    forwarded = 0
    while process.poll() is None:
        for signum in inbox.stops[forwarded:]:
            forwarded += 1
            signal_process(inside or process.pid, signum)
        inbox.wait(_WAIT_SECONDS)
    code = process.returncode
    return code if code >= 0 else 128 - code


def _pid_inside(read: int) -> int | None:
    """The PID of the command inside; None if bubblewrap could not start it, and has reported why."""
    with os.fdopen(read, encoding="utf-8") as file:
        text = file.read()
    return int(json.loads(text)["child-pid"]) if text else None


if __name__ == "__main__":
    with SignalInbox() as signals:
        sys.exit(run_attached(sys.argv[1:], signals))
