"""The stacks of all ranks, taken at once when one hangs: of this node, and of others that answer in time."""

from __future__ import annotations

import glob
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from ma_boot.errors import described
from ma_boot.node.environment.extras import install_command
from ma_boot.node.observe.peers import PeerMessage, Peers
from ma_boot.node.observe.stacks import UNKNOWN, RankAtHang, folded, last_dump
from ma_boot.node.observe.suspect import MOST_WAITS, at_work, suspect, waited_for, waits_text
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import process_usages
from ma_boot.processes.orphan_guard import children_of, process_stat, processes_with
from ma_boot.processes.signals import SignalInbox, catches_signal, signal_group
from ma_boot.processes.task import Task
from ma_boot.processes.tool import contents, memory_file
from ma_boot.redact import without_secret_variables
from ma_boot.report.result import HangSuspect
from ma_boot.wording import ranks_text, text_in

ANSWER_SECONDS = 9.0  # py-spy's time, and a second for the way
VERDICT_SECONDS = 0.7  # and then for the verdict of node 0
OWN_SECONDS = 12.0  # for the own stacks: a process in uninterruptible sleep may hold up who looks at it
SILENT_SECONDS = 4.0  # if all that have not answered yet cannot be reached either
LONGEST_STACK = 12_000  # characters, for the way between nodes and the events
LONGEST_TEXT = 150_000  # characters of a message: six bytes each, at most
MOST_PLOGS = 2  # of a rank: CANN begins a new file after some megabytes
PLOG_BYTES = 1 << 16
MOST_RANKS = 64  # of a node
MOST_FOLDS = 256  # of a message
LONGEST_LINE = 1000
MOST_SHOWN = 6
MOST_SHOWN_LINES = 40


class StacksRound:
    """Begins to take the stacks of the running `workers`, in a thread.

    `quiet` are their seconds without activity. Node 0 waits for the stacks of the other nodes, and tells them
    what follows from all of them; each of those waits for it.

    Raises:
        RuntimeError: the limit of threads.
    """

    def __init__(
        self, workers: Sequence[Worker], quiet: Mapping[int, float], peers: Peers, inbox: SignalInbox
    ):
        self.began = time.monotonic()
        self._peers = peers
        self._waiting: set[int] = set(peers.others)
        self._verdict: dict[str, Any] | None = None
        self._ranks: list[RankAtHang] = []
        self._unnamed: list[tuple[str, str]] = []
        self._shared = False  # the own stacks, with the other nodes
        running = [worker for worker in workers if worker.exit is None]
        self._running = [worker.spec.label for worker in running]
        ended = [worker for worker in workers if worker.exit is not None]
        self._task = Task("stacks", lambda cancel: _taken(running, ended, quiet, peers.node), inbox)

    def receive(self, message: PeerMessage) -> None:
        """Takes the verdict of node 0; or, as node 0, the ranks of another node, with stacks or ends."""
        old = message.kind != "ended" and message.when < self.began - ANSWER_SECONDS
        if old or message.node not in self._waiting:
            return
        if message.kind == "verdict":
            self._verdict = read_verdict(message.body)
            self._waiting -= {message.node} if self._verdict is not None else set()
        elif not self._peers.node:
            ranks = (read_ranks if message.kind == "stacks" else read_ends)(message, self._peers)
            self._waiting -= {message.node} if ranks is not None else set()
            self._ranks += ranks or []

    def patience(self) -> float:
        """Seconds until the others count as silent, or the own stacks are given up."""
        answer = ANSWER_SECONDS + (VERDICT_SECONDS if self._peers.node else 0.0)
        return max(0.0, self.began + (answer if self._shared else OWN_SECONDS) - time.monotonic())

    def finished(self) -> bool:
        """True when the stacks of all nodes have arrived, or their time is over."""
        if not self._shared and (self._task.finished or self.patience() == 0):
            self._shared = True
            no_stacks = [(", ".join(self._running), f"no stacks within {OWN_SECONDS:.0f} s")]
            ranks, self._unnamed = self._task.result() if self._task.finished else ([], no_stacks)
            self._ranks += ranks
            if self._peers.node:
                longest = LONGEST_TEXT // max(1, len(ranks))
                rows = [rank._replace(stack=rank.stack[:longest])._asdict() for rank in ranks[:MOST_RANKS]]
                self._peers.tell("stacks", {"ranks": rows})
        silent = self._waiting <= set(self._peers.unreached)
        left = self.patience() - (ANSWER_SECONDS - SILENT_SECONDS if silent else 0.0)
        return self._shared and (not self._waiting or left <= 0)

    def report(self) -> tuple[list[str], dict[str, Any]]:
        """The lines for people, and the fields of the event, which node 0 tells the others."""
        verdict = self._verdict
        if verdict is None:
            times = Counter(rank.rank for rank in self._ranks)  # two nodes that have the same rank
            ranks = [rank for rank in self._ranks if rank.node == self._peers.node or times[rank.rank] == 1]
            verdict = _verdict(ranks, sorted(self._waiting & set(self._peers.unreached)))
            if not self._peers.node:
                self._peers.tell("verdict", _short(verdict))
        return _lines(verdict, self._unnamed), verdict


class RankProcess(NamedTuple):
    """A process whose stacks are asked for: of a worker, or below one that has started the ranks itself.

    `path` is searched for py-spy, which gets the training's `environ` without its secrets. `output` is what
    ma_boot reads of the process, if it does: a launcher's output is of all its ranks. `quiet` are the seconds
    without activity.
    """

    pid: int
    path: str
    output: WorkerOutput | None = None
    environ: Mapping[str, str] = MappingProxyType({})
    rank: int | None = None
    label: str = ""
    quiet: float = 0.0
    printed: float = UNKNOWN

    @classmethod
    def all_of(cls, worker: Worker, quiet: float) -> list[RankProcess]:
        """The process of a rank, those of the ranks of a launcher, or the worker's own if it is neither."""
        spec = worker.spec
        launched = ranks_below(worker.pid) if spec.rank is None else {}
        printed = time.monotonic() - worker.output.last_output if spec.rank is not None else UNKNOWN
        path = f"{spec.environ.get('PATH', '')}:{os.path.dirname(sys.executable)}"
        return [
            cls(
                pid,
                path,
                worker.output if pid == worker.pid else None,
                spec.environ,
                rank,
                spec.label,
                quiet,
                printed,
            )
            for rank, pid in launched.items() or [(spec.rank, worker.pid)]
        ]

    def words(self) -> str:
        """Lines on its waits: printed by the rank, and logged by CANN."""
        if self.output is not None:
            return self.output.tail() + _plogs(self.environ)
        return _plogs(self.environ, f"plog-{self.pid}_*.log")


def _taken(
    running: Sequence[Worker], ended: Sequence[Worker], quiet: Mapping[int, float], node: int
) -> tuple[list[RankAtHang], list[tuple[str, str]]]:
    """The ranks of this node, and the stacks of processes that are no rank."""
    processes = [
        process for worker in running for process in RankProcess.all_of(worker, quiet.get(worker.pid, 0.0))
    ]
    states = [(process_stat(process.pid) or [""])[0] for process in processes]
    try:
        texts = stacks_of(processes)
    except Exception as error:  # the hang itself is what counts
        texts = [f"no stacks: {described(error)}"] * len(processes)
    ranks: list[RankAtHang] = []
    unnamed: list[tuple[str, str]] = []
    for process, state, text in zip(processes, states, texts):
        if process.rank is None:
            unnamed.append((process.label, text))
            continue
        waits, quiet_for = waited_for(process.words(), process.rank), round(process.quiet, 1)
        printed = round(process.printed, 1)
        stack = text[:LONGEST_STACK]
        ranks.append(RankAtHang(process.rank, node, stack, quiet_for, waits, state=state, printed=printed))
    for worker in ended:
        if worker.spec.rank is not None and worker.exit is not None:
            ranks.append(RankAtHang(worker.spec.rank, node, ended=worker.exit.code))
    return ranks, unnamed


def _plogs(environ: Mapping[str, str], names: str = "plog-*.log") -> str:
    """The ends of CANN's newest log files of a rank, which have more of HCCL than its output.

    CANN has the number of the process in their `names`.
    """
    place = environ.get("ASCEND_PROCESS_LOG_PATH")
    if not place:
        return ""
    files = glob.glob(os.path.join(glob.escape(place), "debug", "plog", names))
    texts: list[str] = []
    for file in sorted(files, key=_modified)[-MOST_PLOGS:]:
        with suppress(OSError), open(file, "rb") as log:  # CANN may have removed it meanwhile
            log.seek(max(0, os.fstat(log.fileno()).st_size - PLOG_BYTES))
            texts.append(log.read(PLOG_BYTES).decode("utf-8", "replace"))
    return "\n".join(["", *texts])


def _modified(file: str) -> float:
    """The file's time; 0 if it has gone, so it comes before all others."""
    try:
        return os.path.getmtime(file)
    except OSError:
        return 0.0


def _verdict(ranks: Sequence[RankAtHang], silent: Sequence[int]) -> dict[str, Any]:
    """Returns the verdict on the stacks of all ranks, as the fields of the event `stacks`."""
    working = () if silent else at_work(ranks)
    suspected = None if working else suspect(ranks, silent)
    return {
        "folded": [{"ranks": fold.ranks, "stack": fold.stack[:LONGEST_STACK]} for fold in folded(ranks)],
        "suspect": suspected._asdict() if suspected else None,
        "waits": waits_text({rank.rank: rank.waits_for for rank in ranks}),
        "silent": list(silent),
        "working": [rank.rank for rank in working],
    }


def _short(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict as it fits in a message."""
    longest = LONGEST_TEXT // max(1, len(verdict["folded"]))
    folds = [{**fold, "stack": fold["stack"][:longest]} for fold in verdict["folded"][:MOST_FOLDS]]
    return {**verdict, "folded": folds, "waits": verdict["waits"][:MOST_SHOWN_LINES]}


def _lines(verdict: Mapping[str, Any], unnamed: Sequence[tuple[str, str]]) -> list[str]:
    folds = verdict["folded"]
    shown = [(ranks_text(fold["ranks"]), fold["stack"]) for fold in folds[:MOST_SHOWN]]
    lines = [_indented(f"{who}:", stack) for who, stack in [*unnamed, *shown]]
    if len(folds) > MOST_SHOWN:
        lines.append(f"and {len(folds) - MOST_SHOWN} other stacks, all of them in the events of node 0")
    lines += [f"HCCL: {line}" for line in verdict["waits"][:MOST_SHOWN_LINES]]
    suspected = HangSuspect(**verdict["suspect"]) if verdict["suspect"] else None
    if verdict["working"]:
        of = ranks_text(verdict["working"])
        lines.append(f"no hang: of {of} there is output, and it waits for nobody, as the others do for it")
    else:
        lines.append(f"suspected: {suspected}: it {suspected.why}" if suspected else _nobody(folds))
    return lines


def _nobody(folds: Sequence[Mapping[str, Any]]) -> str:
    """Returns the reason why no rank is suspected."""
    without = [rank for fold in folds if fold["stack"].startswith("no stacks") for rank in fold["ranks"]]
    if without:
        of = "" if len(without) == sum(len(fold["ranks"]) for fold in folds) else f" of {ranks_text(without)}"
        return f"cannot tell: no stacks{of} ({install_command('hang')})"
    if len(folds) == 1:
        return "cannot tell: no rank differs from the others"
    return "cannot tell: most ranks are not at one place"


def _indented(head: str, text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    more = [f"... {len(lines) - MOST_SHOWN_LINES} lines more"] if len(lines) > MOST_SHOWN_LINES else []
    return "\n  ".join([head, *lines[:MOST_SHOWN_LINES], *more])


def read_ranks(message: PeerMessage, peers: Peers) -> list[RankAtHang] | None:
    """The ranks of another node by its message; None if it is malformed, or names ranks of other nodes."""
    try:
        ranks = [
            RankAtHang(
                int(row["rank"]), message.node, _plain(row["stack"]), float(row["quiet"]),
                tuple(map(int, row["waits_for"][:MOST_WAITS])),
                None if row["ended"] is None else int(row["ended"]), _plain(row["state"])[:1],
                float(row["printed"]),
            )
            for row in message.body["ranks"][:MOST_RANKS]
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return _believed(ranks, peers)


def read_ends(message: PeerMessage, peers: Peers) -> list[RankAtHang] | None:
    """The ranks of another node that have ended, by its message, as `read_ranks`."""
    try:
        rows = message.body["codes"][:MOST_RANKS]
        ranks = [RankAtHang(int(rank), message.node, ended=int(code)) for rank, code in rows]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return _believed(ranks, peers)


def _believed(ranks: list[RankAtHang], peers: Peers) -> list[RankAtHang] | None:
    distinct = len({rank.rank for rank in ranks}) == len(ranks)
    right = all(
        peers.has_rank(rank.node, rank.rank) and math.isfinite(rank.quiet + rank.printed) for rank in ranks
    )
    return ranks if distinct and right else None


def read_verdict(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Reads the verdict of node 0 on all stacks; None for any other message."""
    try:
        named = body["suspect"]
        rank = named and named["rank"]
        suspected = named and HangSuspect(
            int(named["node"]), None if rank is None else int(rank), text_in(named, "why", _line)
        )
        return {
            "folded": [
                {"ranks": tuple(map(int, fold["ranks"])), "stack": _plain(fold["stack"])}
                for fold in body["folded"][:MOST_FOLDS]
            ],
            "suspect": suspected._asdict() if suspected else None,
            "waits": [_line(line) for line in body["waits"][:MOST_SHOWN_LINES]],
            "silent": list(map(int, body["silent"])),
            "working": list(map(int, body["working"])),
        }
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _plain(text: object) -> str:
    """The text without what would move a terminal's cursor."""
    if not isinstance(text, str):
        raise TypeError
    return "".join(letter for letter in text[:LONGEST_STACK] if letter.isprintable() or letter == "\n")


def _line(text: object) -> str:
    return _plain(text).replace("\n", " ")[:LONGEST_LINE]


PYTHON_SECONDS = 4.0  # for py-spy to answer, for all processes together
ASLEEP_SECONDS = 0.5  # for processes that sleep uninterruptibly
NATIVE_SECONDS = 3.0  # and again with native calls, whose symbols it has to look up
KILLED_SECONDS = 0.5  # for those to end that took longer
DUMPED_SECONDS = 1.5  # for faulthandler, whose lines come as output of the rank
_DUMPED_QUIET = 0.15  # its lines come in one piece, unless the machine is busy
# What launchers tell their ranks: torchrun, accelerate and DeepSpeed; Open MPI; MPICH; msrun.
_OF_RANKS = (("RANK", "LOCAL_RANK"), ("OMPI_COMM_WORLD_RANK",), ("PMI_RANK",), ("MS_NODE_ID", "MS_ROLE"))


def stacks_of(processes: Sequence[RankProcess]) -> list[str]:
    """The stacks of each process, or why there are none.

    A process in uninterruptible sleep cannot be stopped for it, and is read as it is.
    Without py-spy, a process that catches SIGUSR1 gets it: faulthandler prints the stacks to its own output.
    Any other process would be ended by that signal.
    """
    paths = {process.pid: shutil.which("py-spy", path=process.path) for process in processes}
    spies = {pid: path for pid, path in paths.items() if path}
    failed = {process.pid: "py-spy is not installed" for process in processes if process.pid not in spies}
    environs = {process.pid: without_secret_variables(process.environ) for process in processes}
    asleep = {pid: spy for pid, spy in spies.items() if (process_stat(pid) or [""])[0] == "D"}
    others = {pid: spy for pid, spy in spies.items() if pid not in asleep}
    dumps = _dumped(others, environs, (), PYTHON_SECONDS, failed)
    with_native = {pid: spies[pid] for pid in dumps}
    dumps.update(_dumped(asleep, environs, ("--nonblocking",), ASLEEP_SECONDS, failed))
    dumps.update(_dumped(with_native, environs, ("--native",), NATIVE_SECONDS, {}))
    dumps.update(_by_faulthandler([process for process in processes if process.pid not in dumps], failed))
    return [dumps[process.pid] for process in processes]


def _dumped(
    spies: Mapping[int, str],
    environs: Mapping[int, Mapping[str, str]],
    options: Sequence[str],
    seconds: float,
    failed: dict[int, str],
) -> dict[int, str]:
    """Runs py-spy on all processes at the same time; adds the reasons of failures to `failed`.

    A py-spy that exceeds its time is killed with its children, and hardly waited for: it may be in
    uninterruptible sleep. So it prints to memory, not to a pipe that its children would keep open.
    """
    until = time.monotonic() + seconds
    dumps: dict[int, str] = {}
    with ExitStack() as files:
        running: dict[int, tuple[subprocess.Popen[bytes], BinaryIO, BinaryIO]] = {}
        for pid, spy in spies.items():
            output, errors = files.enter_context(memory_file()), files.enter_context(memory_file())
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
            elif process.returncode == 0 and (text := contents(output)).strip():
                dumps[pid] = text
            else:
                failed[pid] = f"py-spy failed: {contents(errors).strip()}"
    return dumps


def _by_faulthandler(processes: Sequence[RankProcess], failed: dict[int, str]) -> dict[int, str]:
    """Returns the dump of faulthandler in each process, or the reason why there is none."""
    sent: dict[int, float] = {}
    dumps: dict[int, str] = {}
    for process in processes:
        why = "the script does not call faulthandler.register(signal.SIGUSR1)"
        if catches_signal(process.pid, signal.SIGUSR1):
            now = time.monotonic()
            try:
                os.kill(process.pid, signal.SIGUSR1)
                sent[process.pid] = now
                continue
            except OSError as error:  # it has ended since
                why = f"SIGUSR1 was not sent: {error.strerror}"
        dumps[process.pid] = f"no stacks: {failed[process.pid]}, and {why}"
    until = time.monotonic() + DUMPED_SECONDS
    for process in processes:
        if process.pid in sent:
            text = (
                wait_for_dump(process.output, sent[process.pid], until) if process.output is not None else ""
            )
            dumps[process.pid] = text or "sent SIGUSR1, the stacks are in its own output"
    return dumps


def wait_for_dump(output: WorkerOutput, since: float, until: float) -> str:
    """Returns the dump printed after `since`, once the output is quiet; empty at `until` (monotonic)."""
    while (now := time.monotonic()) < until:
        if output.last_output > since and now - output.last_output > _DUMPED_QUIET:
            return last_dump(output.tail())
        time.sleep(_DUMPED_QUIET / 3)
    return ""


def ranks_below(launcher: int) -> dict[int, int]:
    """The processes that a launcher has started as ranks, by rank; by the variables in their environment.

    Data loaders have the variables of their rank, and so has a script around it: the uppermost Python counts
    for each rank, or else the uppermost process.
    """
    below = children_of((pid, usage.parent) for pid, usage in process_usages().items())
    layer, order = [launcher], [launcher]
    while layer:
        layer = [child for pid in layer for child in below.get(pid, ())]
        order += layer
    for names in _OF_RANKS:
        first, *others = (dict(processes_with(name, order)) for name in names)
        ranks = {pid: int(first[pid]) for pid in order if first.get(pid, "").isdecimal()}
        ranks = {pid: rank for pid, rank in ranks.items() if all(pid in other for other in others)}
        if ranks and launcher not in ranks:
            lowest: dict[int, int] = {}
            for pid in [*filter(_is_python, ranks), *ranks]:
                lowest.setdefault(ranks[pid], pid)
            return lowest
    return {}


def _is_python(pid: int) -> bool:
    program = ""
    with suppress(OSError):  # it has just ended
        program = os.readlink(f"/proc/{pid}/exe")
    return os.path.basename(program).startswith("python")
