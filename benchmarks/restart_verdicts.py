"""Verdicts on recorded failures, beside those of NVIDIA's restart agent in its deterministic part.

    .bench/bin/python -m pip install httpx
    .bench/bin/python -m pip install --target .bench/nvrx --no-deps --only-binary=:all: \
        --platform manylinux_2_39_x86_64 --python-version 3.12 nvidia-resiliency-ext==0.7.0
    .bench/bin/python benchmarks/restart_verdicts.py --nvrx .bench/nvrx

Each failure comes at every start. A judge reads the output, and decides whether there is another start. In
one job no checkpoint becomes complete; in the other one does before each failure. The agent needs neither a
GPU nor a model.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the recorded failures of the tests

import tables

from ma_boot.node.observe.metrics.progress import last_step
from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, failure_kind
from ma_boot.node.peers.start_rule import repeated_start
from ma_boot.report.cause import cause_of, causes_of
from ma_boot.report.job_ledger import FAILED, EntryKey, JobLedger, LedgerEntry, RunDigest
from ma_boot.report.result import WorkerExit
from tests.unit.peers.test_recorded_failures import FILES, Recorded, read, verdicts

# Starts that the platform makes at most.
MOST_STARTS = 10
STEP = 400
DIGEST = RunDigest("code", "command", "mapping", "image", "environment")
OWN_FAILURE = (
    "without a model it has no class of failures that always come again: two retries for the same error"
)
SHARED = "ours: another network, server or file may succeed, and a false stop costs more than a start"
# Reasons of the differences, by the label, our rule, and the rule of the agent.
REASONS = {
    ("deterministic", True, "general_root_ceiling"): OWN_FAILURE,
    ("configuration", True, "general_root_ceiling"): OWN_FAILURE,
    (
        "configuration",
        True,
        "job_no_progress_guard",
    ): "it finds no error in these lines: three retries without progress",
    (
        "deterministic",
        True,
        "job_no_progress_guard",
    ): "the kernel's kill is in the cgroup's counters, not in the output",
    ("deterministic", True, "policy_context_no_retry"): (
        "its rule for CUDA: never again, also after progress. Ours needs a second time: batches differ in "
        "length, and a neighbour may have had the memory"
    ),
    ("deterministic", False, "general_root_ceiling"): (
        "ours: an error of the card, or a file that ended early, in an exception of the training, is no proof"
    ),
    ("transient", False, "general_root_ceiling"): SHARED,
    ("transient", False, "selected_policy_ledger"): f"{SHARED}. Its rule for a port in use: one retry",
    (
        "hardware",
        False,
        "general_root_ceiling",
    ): "ours: no restart in place, but any number with new pods; the next server is named",
    (
        "unknown",
        False,
        "general_root_ceiling",
    ): "ours: a process that was killed, or a disk, says nothing about the next start",
    ("unknown", False, "job_no_progress_guard"): (
        "ours: a signal, or an exit code alone, is no proof; the platform's number of restarts is the limit"
    ),
}


class Compared(NamedTuple):
    """Starts until each judge ends the job: without a newer checkpoint, and with one each time."""

    name: str
    label: str
    in_place: int
    ours: int
    theirs: int
    rule: str
    ours_advancing: int
    theirs_advancing: int

    @property
    def reason(self) -> str:
        """The reason for the difference; raises `KeyError` if there is none yet."""
        if (self.ours, self.ours_advancing) == (self.theirs, self.theirs_advancing):
            return "the same"
        return REASONS[self.label, self.ours < MOST_STARTS, self.rule]


def log_of(recorded: Recorded, step: int) -> str:
    """The output of a start, with the lines of Megatron-LM by which the agent finds progress."""
    saved = [
        f" iteration {step:8}/ 10000 | consumed samples: {step} | elapsed time per iteration (ms): 100.0 |",
        f"  successfully saved checkpoint from iteration {step:7} to /cache/out",
    ]
    return "\n".join([*saved, *(f"[rank3]: {line}" for line in recorded.output.splitlines()), ""])


def our_starts(recorded: Recorded, advances: bool) -> int:
    """Starts until one ends at once by the ledger."""
    entries: list[LedgerEntry] = []
    for start in range(1, MOST_STARTS + 1):
        if repeated_start(JobLedger.of(entries), DIGEST, saves_checkpoints=True) is not None:
            return start - 1
        step = STEP + start if advances else STEP
        oom = "the kernel killed a process" if recorded.out_of_memory else None
        ended = WorkerExit(
            "rank 3", 3, 3, 77, recorded.code, recorded.signal, 9, 61.0, False, "", recorded.output, oom=oom
        )
        cause = cause_of(causes_of([ended], 0, 0.0))
        ends = {
            0: AttemptEnd(1, whole=str(step), seconds=61.0, stepped=last_step(recorded.output) is not None)
        }
        key = EntryKey(start, "9c41e0d2", 1, FAILED)
        entry = LedgerEntry(key, "job", float(start), 1, digest=DIGEST, whole=str(step))
        if cause is not None:
            entry = entry._replace(code=cause.code, words=cause.words, place=cause.place)
        entries.append(entry._replace(kind=failure_kind(ends, cause, RestartPolicy())))
    return MOST_STARTS


def their_starts(agent: Any, recorded: Recorded, advances: bool, directory: Path) -> tuple[int, str]:
    """Starts until the agent recommends to stop, and the basis of that decision."""
    runtime = agent.RestartAgentRuntime(agent.RestartAgent())
    basis = ""
    for start in range(1, MOST_STARTS + 1):
        log = directory / f"{start}.log"
        log.write_text(log_of(recorded, STEP + start if advances else STEP))
        request = agent.RestartAgentRequest(log_path=str(log), job_id="job", cycle_id=start)
        result = runtime.analyze_one(request).result.to_payload()
        basis = result["decision_basis"]
        if result["decision"] == "STOP":
            return start, ", ".join(result["retry_policy"]["exhausted_by"]) or basis
    return MOST_STARTS, basis


def compared(agent: Any, file: Path) -> Compared:
    """The verdicts of both on a recorded failure."""
    recorded = read(file)
    with tempfile.TemporaryDirectory() as name:
        theirs, rule = their_starts(agent, recorded, False, Path(name))
        advancing, _ = their_starts(agent, recorded, True, Path(name))
    return Compared(
        name=file.stem,
        label=recorded.label,
        in_place=len(verdicts(recorded)),
        ours=our_starts(recorded, False),
        theirs=theirs,
        rule=rule,
        ours_advancing=our_starts(recorded, True),
        theirs_advancing=advancing,
    )


def table_of(rows: Sequence[Compared]) -> str:
    """The table: one line for all failures of a label with the same verdicts and the same reason."""
    columns = (
        "label", "failures", "attempts in place", "our starts", "the agent's starts", "its rule",
        "with a newer checkpoint: ours, the agent's", "reason of the difference", "recorded failures",
    )  # fmt: skip
    groups: dict[tuple[str, ...], list[Compared]] = {}
    for row in rows:
        place = str(row.in_place)
        key: tuple[str, ...] = (row.label, place, starts(row.ours), starts(row.theirs), row.rule,
               f"{starts(row.ours_advancing)}, {starts(row.theirs_advancing)}", row.reason)  # fmt: skip
        groups.setdefault(key, []).append(row)
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for group, found in sorted(groups.items()):
        names = ", ".join(row.name for row in found)
        lines.append(f"| {group[0]} | {len(found)} | {' | '.join(group[1:])} | {names} |")
    return "\n".join(lines)


def starts(number: int) -> str:
    """A number of starts in words."""
    return "no end" if number == MOST_STARTS else str(number)


def main() -> None:
    """Compares the verdicts on all recorded failures, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nvrx", type=Path, required=True, help="directory of nvidia-resiliency-ext")
    sys.path.insert(0, str(parser.parse_args().nvrx.resolve()))
    agent = importlib.import_module("nvidia_resiliency_ext.attribution.restart_agent")
    rows = [compared(agent, file) for file in FILES]
    tables.write("verdicts", table_of(rows))
    print(table_of(rows))


if __name__ == "__main__":
    main()
