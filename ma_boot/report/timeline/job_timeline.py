"""The timeline of a job as values; times are in seconds after the first event. Pure.

Named tuples: eight frozen dataclasses take 5 ms to define, at the end of every job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ma_boot.report.cause import Cause
from ma_boot.report.doubt import Doubt
from ma_boot.report.job_ledger import LedgerEntry
from ma_boot.report.timeline.all_starts import AllStarts

# Role of a process whose end the events do not tell.
UNKNOWN = "unknown"
# Role of a process that ended with 0 although a process below it failed.
DOUBTFUL = "doubtful"


class PhaseSpan(NamedTuple):
    """A phase of a node; without an event of its end, `end` is None and `outcome` is empty."""

    name: str
    start: float
    end: float | None
    outcome: str
    detail: str


class ProcessSpan(NamedTuple):
    """One process: its start, first output and end; `first_output` and `end` are None where unknown.

    `code` is the exit code as a shell shows it. `stopped` means that ma_boot was already stopping all
    processes. `role` is `UNKNOWN`, `DOUBTFUL`, or one of those of a `RunResult`.
    """

    label: str
    rank: int | None
    start: float
    first_output: float | None
    end: float | None
    code: int | None
    signal: int | None
    stopped: bool
    oom: str
    log_file: str
    role: str = UNKNOWN

    @property
    def failed(self) -> bool:
        """True if the process failed on its own."""
        return self.code not in (None, 0) and not self.stopped


class Incident(NamedTuple):
    """A restart, stop, hang, fault or the like: `kind` is that of the event, `label` names those affected."""

    kind: str
    at: float
    node: int | None
    label: str
    text: str


class TransferSpan(NamedTuple):
    """A transfer; `samples` are (time, bytes so far), and `end` is None for one that did not finish.

    `by_length` is the number of files that were compared by their length only.
    """

    direction: str
    start: float
    end: float | None
    files: int
    bytes: int
    samples: tuple[tuple[float, int], ...]
    retries: int = 0
    by_length: int = 0


class PlaceOfData(NamedTuple):
    """An input or output (`direction`): a directory or file on the node, and its place in OBS.

    `name` is that in the job form, empty for a path mapping, for which `files` and `bytes` are None: its
    transfers have them. Not `complete`: there are more.
    """

    direction: str
    name: str
    local: str
    url: str
    files: int | None = None
    bytes: int | None = None
    complete: bool = True


class StackGroup(NamedTuple):
    """Processes that hang at the same place: their ranks and their stack."""

    ranks: tuple[int, ...]
    stack: str


class StuckCollective(NamedTuple):
    """A collective at a hang: the ranks that wait in it, those that have not entered it, and differences."""

    group: str
    seq: int
    op: str
    inside: str
    outside: str
    place: str
    differs: tuple[tuple[str, str], ...] = ()


class HangStacks(NamedTuple):
    """Stacks of all ranks at a hang, the odd ones first, and the suspect with its evidence (`why`).

    `stuck` are the collectives of PyTorch in which ranks wait, `label` is the suspect without its node:
    `rank 3`, or `node 1` for a whole node.
    """

    at: float
    groups: tuple[StackGroup, ...]
    suspect: str
    why: str
    stuck: tuple[StuckCollective, ...] = ()
    label: str = ""


class Measurement(NamedTuple):
    """Measurements at a moment: for `ranks`, `cards` and the `host`, the values of each metric by name.

    Names are ranks or labels, numbers of cards, and parts of the host such as a directory.
    """

    at: float
    ranks: Mapping[str, Mapping[str, float]]
    cards: Mapping[str, Mapping[str, float]]
    host: Mapping[str, Mapping[str, float]]


class BootRun(NamedTuple):
    """One run of the boot command on a node; `exit_code` is None without an event of its end.

    `by` is whose exit code it is: `signal`, `ma_boot`, `training`, `output`, or empty. `words` are what the
    process that failed first said of it, `command` is the boot command with the options that were given,
    `job_cause` the cause of the job's end, as far as this node knew; `program` names the script that was run,
    `software` has versions by name, and the `commit` of the code. `saves` are the steps of its checkpoints,
    each with the moment when it was there to be published, `whole` is the last one known to be whole. `doubt`
    is about a success. `ledger` are the entries of all starts of the job that node 0 knew.
    """

    start: float
    end: float
    phases: tuple[PhaseSpan, ...]
    processes: tuple[ProcessSpan, ...]
    incidents: tuple[Incident, ...]
    transfers: tuple[TransferSpan, ...]
    exit_code: int | None
    by: str
    cause: str
    label: str
    signal: int | None
    words: str = ""
    command: str = ""
    host: str = ""
    places: tuple[PlaceOfData, ...] = ()
    stacks: tuple[HangStacks, ...] = ()
    samples: tuple[Measurement, ...] = ()
    job_cause: Cause | None = None
    program: str = ""
    software: Mapping[str, str] = {}
    saves: tuple[tuple[float, str], ...] = ()
    whole: str = ""
    doubt: Doubt | None = None
    ledger: tuple[LedgerEntry, ...] = ()

    @property
    def latest(self) -> tuple[ProcessSpan, ...]:
        """Processes of the run; of restarted ones the last attempt."""
        return tuple({process.label: process for process in self.processes}.values())


class NodeTimeline(NamedTuple):
    """A node with its recent runs, at least one, oldest first."""

    number: int
    runs: tuple[BootRun, ...]

    @property
    def last(self) -> BootRun:
        """The last run."""
        return self.runs[-1]


class JobOutcome(NamedTuple):
    """End of the job, with the node and the process that caused it, where they are known.

    `by` is as in `BootRun`; of a whole rehearsal it may be `node`, for the node `label` that ended without an
    event of its end. `process` then has that node's log. `named` is the cause that the nodes have named. A
    `doubt` is about the success of `process` on `node`.
    """

    exit_code: int | None
    by: str
    cause: str
    node: int | None = None
    process: ProcessSpan | None = None
    signal: int | None = None
    label: str = ""
    words: str = ""
    named: Cause | None = None
    doubt: Doubt | None = None


class Timeline(NamedTuple):
    """A whole job; `began` is the wall-clock time of its first event, `seconds` its duration.

    `earlier_runs` are left out, and `unreadable` is the number of lines that could not be parsed. `command`
    is that of a rehearsal, `boot_command` the one of the job form for it. `schedules` is how often the
    platform has scheduled the job, as far as it tells. `starts` are all starts of the job in its ledger.
    """

    job: str
    began: float
    seconds: float
    expected_nodes: int | None
    nodes: tuple[NodeTimeline, ...]
    incidents: tuple[Incident, ...]
    outcome: JobOutcome
    earlier_runs: int
    unreadable: int
    command: str
    boot_command: str
    schedules: int
    starts: AllStarts = AllStarts()

    @property
    def program(self) -> str:
        """Name of the script of the latest run; empty if unknown."""
        return next((run.program for _, run in reversed(list(self.all_runs())) if run.program), "")

    def all_runs(self) -> Iterator[tuple[int, BootRun]]:
        """Yields every run with its node's number, by node."""
        return ((node.number, run) for node in self.nodes for run in node.runs)

    def last_processes(self) -> Iterator[tuple[int, ProcessSpan]]:
        """Yields the latest processes of each node's last run, with the node's number."""
        return ((node.number, process) for node in self.nodes for process in node.last.latest)

    @property
    def restarts(self) -> tuple[Incident, ...]:
        """Restarts of the job's processes.

        All nodes restart together, so each has all of them; the node with most is taken, as others may lack
        events.
        """
        of_nodes = (
            tuple(incident for run in node.runs for incident in run.incidents if incident.kind == "restart")
            for node in self.nodes
        )
        return max(of_nodes, key=len, default=())

    def all_incidents(self) -> tuple[Incident, ...]:
        """Returns the incidents of the job and of all nodes, oldest first."""
        of_nodes = [incident for _, run in self.all_runs() for incident in run.incidents]
        return tuple(sorted([*self.incidents, *of_nodes], key=lambda incident: incident.at))
