"""Programs at a limit of processes and threads: that of a user (`ulimit -u`), or of a control group (`pids.max`)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

from tests.requirement import unavailable

_GROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_RIGHTS = "+dac_override,+dac_read_search,+fowner"  # of another user, who can use the directories of the test
_ENTER = 'echo $$ > "$0/cgroup.procs"; exec "$@"'

Limit = Callable[[int], list[str]]  # the words before a program that may have so many processes and threads


@contextmanager
def by_control_group() -> Iterator[Limit]:
    """A control group of its own; skips the test where none can be made."""
    group = next((at for at in _GROUPS if (at / "cgroup.procs").exists()), _GROUPS[0])
    own = group / f"maboot-test-{os.getpid()}"
    try:
        own.mkdir()
    except OSError as error:
        unavailable(f"a control group of processes: {error}")
    try:
        if not (own / "pids.max").exists():
            unavailable("a control group of processes: its controller is not there")

        def limited(count: int) -> list[str]:
            (own / "pids.max").write_text(str(count))
            return ["sh", "-c", _ENTER, str(own)]

        yield limited
    finally:
        until = time.monotonic() + 10
        while (own / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        own.rmdir()


@contextmanager
def by_user() -> Iterator[Limit]:
    """The limit of a user that has no other processes; skips the test for any user but root."""
    if os.geteuid() != 0:
        unavailable("another user: only root can become one")
    user = str(50_000 + os.getpid() % 10_000)
    become = ["setpriv", f"--reuid={user}", "--clear-groups", f"--inh-caps={_RIGHTS}"]
    become.append(f"--ambient-caps={_RIGHTS}")
    if subprocess.run([*become, "true"], check=False).returncode != 0:
        unavailable("setpriv with capabilities (util-linux)")
    yield lambda count: [*become, "prlimit", f"--nproc={count}"]
