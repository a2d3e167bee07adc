"""Finds processes by the marker that they carry; run as a program, kills them once ma_boot is gone.

Every process that ma_boot starts has a marker in its environment, which its own children inherit, whatever
session they move to. One without it (`execve` with another environment, `setproctitle`) is found
as a descendant. ma_boot holds the write end of a pipe to the guard. When ma_boot dies, even of SIGKILL, the
kernel closes the pipe, and the guard kills every process that carries a marker of this ma_boot, or descends
from one that does, or was seen among ma_boot's descendants before. Not found is only a process without a
readable environment that has lost its parents, if it was started since the last look at them: 0.2 s before
(`_GLANCE_SECONDS`), and on a machine with so many processes that looks are expensive up to 2 s.

It starts with every job, so it imports only cheap modules of the standard library: neither `typing` nor
`signal`, which take as long as the interpreter itself.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

RunningProcesses = dict[int, tuple[int, str]]  # their parents and start times, by pid
MARKER_VARIABLE = "MABOOT_RUN"
SETUP = "setup"  # in the place of the container's name, for what runs before the training
GUARD = "guard"  # the marker of guards: they outlive what they guard, to end the rest
_SIGKILL = 9
_POLL_SECONDS = 0.01
_GLANCE_SECONDS = 0.2  # between two glances at whether any process was started; only then a look is worth it
_WATCH_SECONDS = 2.0  # the longest time between two looks at ma_boot's descendants
_SHARE = 0.01  # of a core, that looks take at most where they are more frequent
_POLLS = 200  # a process in uninterruptible sleep is not waited for any longer


def own_marker(container: str) -> str:
    """The marker for what this process starts: PID namespace, pid, start time and name of the container."""
    return f"{_namespace()}:{os.getpid()}:{_started(os.getpid())}:{container}"


def processes_marked(marker: str) -> list[int]:
    """The running processes that carry the marker."""
    return [pid for pid, value in processes_with(MARKER_VARIABLE) if value == marker]


def processes_of(
    marker: str,
    roots: Collection[int] = (),
    apart: Collection[int] = (),
    at: RunningProcesses | None = None,
) -> list[int]:
    """The processes that carry the marker, and all that descend from these or from `roots`.

    They are looked for among the processes that ran `at` some moment just before, or run now. Left out are
    this process, the processes in `apart`, and processes with another marker: guards, and whatever another
    ma_boot or its guard stops.
    """
    running = running_processes() if at is None else at
    born = int(marker.split(":", 3)[2])  # of its ma_boot: what is older cannot carry it
    younger = [pid for pid, (_, started) in running.items() if int(started) >= born]
    markers = dict(processes_with(MARKER_VARIABLE, younger))
    children = children_of((pid, parent) for pid, (parent, _) in running.items())
    waiting = [pid for pid, carried in markers.items() if carried == marker] + list(roots)
    left_out = {os.getpid(), *apart}
    members: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid in members or pid in left_out or pid not in running or markers.get(pid, marker) != marker:
            continue
        members.add(pid)
        waiting += children.get(pid, ())
    return sorted(members)


def children_of(parents: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The children of each process, from pairs of a pid and its parent's."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents:
        children.setdefault(parent, []).append(pid)
    return children


def running_processes() -> RunningProcesses:
    """The parent and the start time of each process that is no zombie."""
    return {pid: (int(stat[1]), stat[19]) for pid, stat in process_stats().items() if stat[0] not in "ZX"}


def leftovers(container: str) -> list[int]:
    """This user's marked processes in this container whose ma_boot is gone.

    Several containers may share a PID namespace, in a rehearsal for example: their names tell them apart.
    """
    orphaned = []
    for pid, marker in processes_with(MARKER_VARIABLE):
        namespace, owner, started, name = (*marker.split(":", 3), "", "", "")[:4]
        here = namespace == _namespace() and name in (container, SETUP)
        if here and owner.isdecimal() and _started(int(owner)) != started:
            orphaned.append(pid)
    return orphaned


def processes_with(variable: str, among: Collection[int] | None = None) -> Iterator[tuple[int, str]]:
    """The other processes that were started with this environment variable, each with its value.

    Of all processes, or `among` these. Those of other users are left out, as far as the kernel hides their
    environment, and so are zombies.
    """
    start = variable.encode() + b"="
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if among is None else among:
        if pid == os.getpid():
            continue
        environ = _contents(f"/proc/{pid}/environ")
        if start in environ:
            values = (entry for entry in environ.split(b"\0") if entry.startswith(start))
            yield from ((pid, os.fsdecode(entry[len(start) :])) for entry in values)


def process_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat (proc(5)) after the name, from the state on; None if it is gone."""
    return _contents(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split() or None


def _contents(file: str) -> bytes:
    """A file of /proc, by few system calls: there are many. Empty if it is gone, or another user's."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return b""
    content = b""
    try:
        while part := os.read(descriptor, 1 << 17):
            content += part
    except OSError:  # the process has ended meanwhile
        return b""
    finally:
        os.close(descriptor)
    return content


def process_stats() -> dict[int, list[str]]:
    """`process_stat` of every process, zombies included."""
    stats = ((pid, process_stat(pid)) for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))))
    return {pid: stat for pid, stat in stats if stat is not None}


def _started(pid: int) -> str | None:
    """The start time of the process in clock ticks after boot; None if it has ended."""
    stat = process_stat(pid)
    return None if stat is None or stat[0] in "ZX" else stat[19]


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def guard(marker: str) -> None:
    """Waits until standard input is closed, the write end of which ma_boot holds; then kills what is left.

    Stop signals are for ma_boot: it has blocked them here (`guarded`).
    """
    owner = os.getppid()
    known: dict[int, str] = {}  # processes that were seen, and when they started: a pid may be used again
    pipe = select.poll()
    pipe.register(0, select.POLLIN)
    checked, newest, due = time.monotonic(), b"", 0.0
    while not pipe.poll(_GLANCE_SECONDS * 1000):  # readable when ma_boot has gone
        now, started = time.monotonic(), _newest_process()
        if now >= checked + _WATCH_SECONDS or (started != newest and now >= due):
            checked, newest, spent = now, started, time.process_time()
            known = descendants(owner, known)
            due = now + (time.process_time() - spent) / _SHARE
    for _ in range(_POLLS):  # repeated: a process may start another one meanwhile
        running = running_processes()
        roots = [pid for pid, start in known.items() if _same(running, pid, start)]
        pids = [pid for own in _of_the_same_owner(marker) for pid in processes_of(own, roots)]
        if not pids:
            return
        known.update((pid, running[pid][1]) for pid in pids if pid in running)
        for pid in pids:
            try:
                os.kill(pid, _SIGKILL)
            except OSError:
                continue
        time.sleep(_POLL_SECONDS)


def _of_the_same_owner(marker: str) -> set[str]:
    """This marker, and all others of the same ma_boot that processes carry."""
    owner = marker.split(":", 3)[:3]
    return {marker, *(text for _, text in processes_with(MARKER_VARIABLE) if text.split(":", 3)[:3] == owner)}


def _same(running: RunningProcesses, pid: int, start: str) -> bool:
    return pid in running and running[pid][1] == start


def _newest_process() -> bytes:
    """The pid that was given last, by proc(5); threads have pids, too."""
    return _contents("/proc/loadavg").rpartition(b" ")[2]


def descendants(owner: int, known: Mapping[int, str]) -> dict[int, str]:
    """All running descendants of a process and of the known processes, with their start times.

    This process is never among them.
    """
    running = running_processes()
    starts = {pid: start for pid, start in known.items() if _same(running, pid, start)}
    children = children_of((pid, parent) for pid, (parent, _) in running.items())
    waiting = [owner, *starts]
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in starts and pid != os.getpid()]
        starts.update((pid, running[pid][1]) for pid in new)
        waiting += new
    return starts
