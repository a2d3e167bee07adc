"""Finds the processes of ranks, and gets their stacks: by py-spy, with native calls, or by faulthandler."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import BinaryIO, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.hangs import last_dump
from ma_boot.processes import children_of, process_usages, processes_with, signal_group
from ma_boot.redact import without_secret_variables
from ma_boot.supervisor.output import WorkerOutput

PYTHON_SECONDS = 4.0  # for py-spy to answer, for all processes together
NATIVE_SECONDS = 3.0  # and again with native calls, whose symbols it has to look up
KILLED_SECONDS = 0.5  # for those to end that took longer
DUMPED_SECONDS = 1.5  # for faulthandler, whose lines come as output of the rank
LONGEST_ANSWER = 1 << 20  # bytes
_DUMPED_QUIET = 0.15  # its lines come in one piece, unless the machine is busy
# What launchers tell their ranks: torchrun, accelerate and DeepSpeed; Open MPI; MPICH; msrun.
_OF_RANKS = (("RANK", "LOCAL_RANK"), ("OMPI_COMM_WORLD_RANK",), ("PMI_RANK",), ("MS_NODE_ID", "MS_ROLE"))
_SIGUSR1_BIT = 1 << (signal.SIGUSR1 - 1)


class Asked(NamedTuple):
    """A process; `path` is searched for py-spy, and `output` is what ma_boot reads of it, if it does.

    py-spy gets `environ`, that of the training, without its secrets.
    """

    pid: int
    path: str
    output: Optional[WorkerOutput] = None
    environ: Mapping[str, str] = MappingProxyType({})


def stacks_of(asked: Sequence[Asked]) -> List[str]:
    """The stacks of each process, or why there are none.

    Without py-spy, a process that catches SIGUSR1 gets it: faulthandler prints the stacks to its own output.
    Any other process would be ended by that signal.
    """
    spies = {one.pid: spy for one in asked for spy in [shutil.which("py-spy", path=one.path)] if spy}
    failed = {one.pid: "py-spy is not installed" for one in asked if one.pid not in spies}
    environs = {one.pid: without_secret_variables(one.environ) for one in asked}
    found = _dumped(spies, environs, (), PYTHON_SECONDS, failed)
    with_native = {pid: spies[pid] for pid in found}
    found.update(_dumped(with_native, environs, ("--native",), NATIVE_SECONDS, {}))
    found.update(_by_faulthandler([one for one in asked if one.pid not in found], failed))
    return [found[one.pid] for one in asked]


def _dumped(
    spies: Mapping[int, str],
    environs: Mapping[int, Mapping[str, str]],
    options: Sequence[str],
    seconds: float,
    failed: Dict[int, str],
) -> Dict[int, str]:
    """What py-spy says of each process, all at the same time; why it says nothing is added to `failed`.

    One that takes longer is killed with all that it has started, and hardly waited for: it may be in
    uninterruptible sleep. So it prints to memory, not to a pipe that its children would keep open.
    """
    until = time.monotonic() + seconds
    found: Dict[int, str] = {}
    with ExitStack() as files:
        running: Dict[int, Tuple[subprocess.Popen[bytes], BinaryIO, BinaryIO]] = {}
        for pid, spy in spies.items():
            output, errors = files.enter_context(_memory()), files.enter_context(_memory())
            try:
                process = subprocess.Popen(
                    [spy, "dump", "--pid", str(pid), *options],
                    env=environs[pid], stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:  # the interpreter in its first line does not exist, for example
                failed[pid] = f"{spy} cannot be executed: {error.strerror}"
                continue
            running[pid] = process, output, errors
        for pid, (process, output, errors) in running.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until + KILLED_SECONDS - time.monotonic()))
                failed[pid] = f"py-spy did not answer within {seconds:.0f} s"
            elif process.returncode == 0 and (text := _contents(output)).strip():
                found[pid] = text
            else:
                failed[pid] = f"py-spy failed: {_contents(errors).strip()}"
    return found


def _memory() -> BinaryIO:
    """A file in memory of `LONGEST_ANSWER` bytes, that nobody can make longer."""
    descriptor = os.memfd_create("py-spy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, LONGEST_ANSWER)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _contents(file: BinaryIO) -> str:
    """What a program has written to the file, which had its position."""
    return os.pread(file.fileno(), file.tell(), 0).decode("utf-8", "replace")


def _by_faulthandler(asked: Sequence[Asked], failed: Dict[int, str]) -> Dict[int, str]:
    """What faulthandler prints in each process, or why it does not."""
    sent: Dict[int, float] = {}
    found: Dict[int, str] = {}
    for one in asked:
        if not _catches_sigusr1(one.pid):
            found[one.pid] = (
                f"no stacks: {failed[one.pid]}, and the script does not call "
                "faulthandler.register(signal.SIGUSR1)"
            )
            continue
        now = time.monotonic()
        try:
            os.kill(one.pid, signal.SIGUSR1)
            sent[one.pid] = now
        except OSError as error:  # it has ended since
            found[one.pid] = f"no stacks: {failed[one.pid]}, and SIGUSR1 was not sent: {error.strerror}"
    until = time.monotonic() + DUMPED_SECONDS
    for one in asked:
        if one.pid in sent:
            text = _printed(one.output, sent[one.pid], until) if one.output is not None else ""
            found[one.pid] = text or "sent SIGUSR1, the stacks are in its own output"
    return found


def _printed(output: WorkerOutput, since: float, until: float) -> str:
    while (now := time.monotonic()) < until:
        if output.heard > since and now - output.heard > _DUMPED_QUIET:
            return last_dump(output.tail())
        time.sleep(_DUMPED_QUIET / 3)
    return ""


def _catches_sigusr1(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(caught, 16) & _SIGUSR1_BIT)


def ranks_below(launcher: int) -> Dict[int, int]:
    """The processes that a launcher has started as ranks, by rank; by the variables in their environment.

    Data loaders have those of their rank, and so has a script around it: of each rank it is the uppermost
    Python, or else the uppermost process.
    """
    below = children_of(process_usages())
    layer, order = [launcher], [launcher]
    while layer:
        layer = [child for pid in layer for child in below.get(pid, ())]
        order += layer
    for names in _OF_RANKS:
        first, *others = (dict(processes_with(name, order)) for name in names)
        ranks = {pid: int(first[pid]) for pid in order if first.get(pid, "").isdecimal()}
        ranks = {pid: rank for pid, rank in ranks.items() if all(pid in one for one in others)}
        if ranks and launcher not in ranks:
            found: Dict[int, int] = {}
            for pid in [*filter(_is_python, ranks), *ranks]:
                found.setdefault(ranks[pid], pid)
            return found
    return {}


def _is_python(pid: int) -> bool:
    program = ""
    with suppress(OSError):  # it has just ended
        program = os.readlink(f"/proc/{pid}/exe")
    return os.path.basename(program).startswith("python")
