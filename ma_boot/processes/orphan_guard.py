"""Finds processes by their marker; as a program, kills them when ma_boot has died.

    ma_boot ----- write end of a pipe -----> guard: polls the pipe, remembers ma_boot's descendants
      | dies, even of SIGKILL                  |
      +----- kernel closes the pipe ---------->| SIGKILL to all marked, descending and remembered processes
                                               | again until none is left

Every process that ma_boot starts has a marker in its environment. Its children inherit the marker, in any
session. A process without it (`execve` with another environment, `setproctitle`) is found as a descendant.
One kind of process is missed: without a readable environment, orphaned, and started after the last scan of
the descendants. Scans are 0.2 s apart (`_GLANCE_SECONDS`), up to 2 s on a machine with so many processes that
scans are expensive.

A guard starts with every job, so this module imports only cheap modules of the standard library: neither
`typing` nor `signal`, which take as long as the interpreter itself.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Parents and start times (clock ticks after boot, as text) by pid.
RunningProcesses = dict[int, tuple[int, str]]
MARKER_VARIABLE = "MABOOT_RUN"
# In place of the container's name, in the marker of processes that run before the training.
SETUP = "setup"
# Marker of guards, which outlive the processes of their ma_boot.
GUARD = "guard"
_SIGKILL = 9
# Seconds between two rounds of SIGKILL, and their number: a process in uninterruptible sleep may never end.
_POLL_SECONDS = 0.01
_POLLS = 200
# Seconds between two checks, of one read each, for a new process on this machine; only then a scan follows.
_GLANCE_SECONDS = 0.2
# Seconds; the longest time between two scans of ma_boot's descendants.
_WATCH_SECONDS = 2.0
# Share of a core that scans may use if they are more frequent than that.
_SHARE = 0.01


def own_marker(container: str) -> str:
    """Returns the marker of this process's children: PID namespace, pid, start time and container name."""
    return f"{_namespace()}:{os.getpid()}:{_started(os.getpid())}:{container}"


def processes_marked(marker: str) -> list[int]:
    """Returns the running processes that carry the marker."""
    return [pid for pid, value in processes_with(MARKER_VARIABLE) if value == marker]


def processes_of(
    marker: str,
    roots: Collection[int] = (),
    apart: Collection[int] = (),
    at: RunningProcesses | None = None,
) -> list[int]:
    """Returns the processes that carry the marker, and all descendants of these or of `roots`.

    `at` are the running processes, read now by default. Excludes this process, those in `apart`, and
    processes with another marker: guards, and processes that another ma_boot or its guard stops.
    """
    running = running_processes() if at is None else at
    # Start of its ma_boot: older processes cannot carry the marker, so their environments are not read.
    born = int(marker.split(":", 3)[2])
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
    """Returns the children of each process, from pairs of a pid and its parent's pid."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents:
        children.setdefault(parent, []).append(pid)
    return children


def below(roots: Iterable[int], children: Mapping[int, Sequence[int]]) -> list[int]:
    """Returns all descendants of the roots, each once.

    `/proc` is no snapshot, so a reused pid may close a circle of parents.
    """
    found: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def running_processes() -> RunningProcesses:
    """Returns the parent and the start time of each process except zombies."""
    return {pid: (int(stat[1]), stat[19]) for pid, stat in process_stats().items() if stat[0] not in "ZX"}


def leftovers(container: str) -> list[int]:
    """Returns this user's marked processes in this container whose ma_boot has ended.

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
    """Yields the other processes that were started with this environment variable, with its value.

    Searches all processes, or `among` these. Zombies have no environment, and those of other users are
    mostly unreadable.
    """
    start = variable.encode() + b"="
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if among is None else among:
        if pid == os.getpid():
            continue
        environ = _contents(f"/proc/{pid}/environ")
        if start in environ:
            values = (entry for entry in environ.split(b"\0") if entry.startswith(start))
            yield from ((pid, os.fsdecode(entry[len(start) :])) for entry in values)


def variables_of(pid: int, names: Collection[str]) -> dict[str, str]:
    """Returns those of these variables with which a process was started; none if it is unreadable."""
    wanted = {name.encode() for name in names}
    pairs = (entry.partition(b"=") for entry in _contents(f"/proc/{pid}/environ").split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name in wanted}


def process_stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/PID/stat (proc(5)) from the state on; None if the process is gone."""
    return _contents(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split() or None


def _contents(file: str) -> bytes:
    """Reads a file of /proc with few system calls, as there are many files; empty if it is unreadable."""
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
    """Returns `process_stat` of every process, zombies included."""
    stats = ((pid, process_stat(pid)) for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))))
    return {pid: stat for pid, stat in stats if stat is not None}


def _started(pid: int) -> str | None:
    """Returns the start time of the process in clock ticks after boot; None if it has ended."""
    stat = process_stat(pid)
    return None if stat is None or stat[0] in "ZX" else stat[19]


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def guard(marker: str) -> None:
    """Waits until ma_boot's end of the pipe at standard input is closed; then kills its processes.

    Stop signals are blocked here (`guarded`): only ma_boot acts on them.
    """
    owner = os.getppid()
    # Start times of the processes seen so far: a pid may be reused.
    known: dict[int, str] = {}
    pipe = select.poll()
    pipe.register(0, select.POLLIN)
    checked, newest, due = time.monotonic(), b"", 0.0
    # The pipe becomes readable when ma_boot has died.
    while not pipe.poll(_GLANCE_SECONDS * 1000):
        now, started = time.monotonic(), _newest_process()
        if now >= checked + _WATCH_SECONDS or (started != newest and now >= due):
            checked, newest, spent = now, started, time.process_time()
            known = descendants(owner, known)
            due = now + (time.process_time() - spent) / _SHARE
    # Repeated, because a process may start another one meanwhile.
    for _ in range(_POLLS):
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
    """Returns this marker and all others of the same ma_boot that processes carry."""
    owner = marker.split(":", 3)[:3]
    return {marker, *(text for _, text in processes_with(MARKER_VARIABLE) if text.split(":", 3)[:3] == owner)}


def _same(running: RunningProcesses, pid: int, start: str) -> bool:
    return pid in running and running[pid][1] == start


def _newest_process() -> bytes:
    """Returns the pid assigned last (proc(5)); threads have pids, too."""
    return _contents("/proc/loadavg").rpartition(b" ")[2]


def descendants(owner: int, known: Mapping[int, str], at: RunningProcesses | None = None) -> dict[int, str]:
    """Returns all running descendants of a process and of the known ones, with their start times.

    `at` are the running processes, read now by default. This process is not included.
    """
    running = running_processes() if at is None else at
    starts = {pid: start for pid, start in known.items() if _same(running, pid, start)}
    own = os.getpid()
    children = children_of((pid, parent) for pid, (parent, _) in running.items() if pid != own)
    return {**starts, **{pid: running[pid][1] for pid in below([owner, *starts], children)}}
