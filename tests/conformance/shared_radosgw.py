"""One radosgw for all processes that run tests: the first starts it, and it ends when the last has let go.

Run as a program, `python -m tests.conformance.shared_radosgw DIRECTORY`, it is the process that owns the server.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.radosgw import Radosgw
from tests.survivors import exclude

ROOT = Path(__file__).parents[2]
_servers: list[subprocess.Popen[str]] = []  # nobody waits for them


@contextmanager
def shared(directory: Path) -> Iterator[str]:
    """The URL of the server of this directory.

    Every user holds the write end of a pipe with a name, of which the owner has the read end: the kernel counts
    them, also those that are killed.
    """
    directory.mkdir(exist_ok=True)
    with _locked(directory):
        users, url = _joined(directory)
    try:
        yield url
    finally:
        os.close(users)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """No other process joins, starts or ends the server meanwhile."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _joined(directory: Path) -> tuple[int, str]:
    """The write end of the pipe, and the URL; starts a server if there is none."""
    pipe = directory / "users"
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), (directory / "url").read_text()
    except FileNotFoundError:
        os.mkfifo(pipe)
    except OSError:  # nobody reads: the server has ended
        pass
    first = os.open(pipe, os.O_RDWR)  # until there is a reader, no other mode can be opened
    try:
        (directory / "url").write_text(_start(directory))
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), (directory / "url").read_text()
    finally:
        os.close(first)


def _start(directory: Path) -> str:
    with (directory / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.shared_radosgw", str(directory)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        )  # fmt: skip
    _servers.append(process)
    exclude([process.pid])
    assert process.stdout is not None
    with process.stdout:
        url = process.stdout.readline().strip()
    if not url:
        raise RuntimeError(f"radosgw did not start:\n{(directory / 'errors').read_text()}")
    return url


def _own(directory: Path) -> None:
    """Runs a server until it has no users."""
    pipe = os.open(directory / "users", os.O_RDONLY)
    with Radosgw(Path(tempfile.mkdtemp(prefix="ceph-", dir=directory))) as server:
        print(server.url, flush=True)
        while True:
            os.read(pipe, 1)  # nobody writes: it returns when the last user has closed the pipe
            with _locked(directory):
                if not _has_users(pipe):
                    os.close(pipe)
                    break


def _has_users(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)
    return not poll.poll(0)


if __name__ == "__main__":
    _own(Path(sys.argv[1]))
