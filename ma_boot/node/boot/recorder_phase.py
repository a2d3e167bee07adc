"""Records of collectives around an attempt: switched on before it, and read after a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.report.journal import Journal
from ma_boot.report.result import HangSuspect, RunResult

if TYPE_CHECKING:
    from ma_boot.node.observe.collectives.recorder import Recorder


class Recording(NamedTuple):
    """The processes of an attempt; `recorder` is None if their collectives are not recorded."""

    workers: Sequence[WorkerSpec]
    node: int
    journal: Journal
    recorder: Recorder | None = None

    def report(self, result: RunResult, hung: str) -> None:
        """Reports the collectives that ranks have dumped on a failure; those of a hang have been reported."""
        if self.recorder is not None and result.first_failure is not None and not hung:
            with self.journal.best_effort("the dumps of collectives are not read"):
                _report_dumps(self.recorder, self.node, self.journal)


@contextmanager
def recording(boot: Boot, workers: Sequence[WorkerSpec], attempt: int) -> Iterator[Recording]:
    """Switches PyTorch's recorders on for `--rendezvous torch`, while the processes of an attempt run."""
    request, job = boot.request, boot.job
    started = Recording(workers, job.node_rank, boot.journal)
    if request.launch.rendezvous == "torch" and request.run.collectives != "off":
        with boot.journal.best_effort("hangs are reported without their collectives"):
            from ma_boot.node.observe.collectives.recorder import Recorder

            recorder = Recorder.open(os.path.join(job.log_dir, job.name), job.node_rank, attempt)
            recorded = [worker._replace(environ=recorder.of_rank(worker.environ)) for worker in workers]
            started = started._replace(workers=recorded, recorder=recorder)
    try:
        yield started
    finally:
        if started.recorder is not None:
            started.recorder.close()


def _report_dumps(recorder: Recorder, node: int, journal: Journal) -> None:
    """Compares the dumps of this node's ranks; prints and records the result."""
    read = recorder.failed_ranks()
    if not read:
        return
    # Few jobs get here.
    from ma_boot.node.observe.collectives.desync import Desync, lines_of
    from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport

    for rank, answer in sorted(read.items()):
        if answer.refused:
            journal.warn(f"the collectives of rank {rank} are not read: {answer.refused}")
    desync = Desync.of({rank: answer.record for rank, answer in read.items() if answer.record is not None})
    accused = desync.accused
    suspect = HangSuspect(node, accused.rank, accused.why) if accused else None
    lines = lines_of(desync.groups)
    for line in lines + ([f"suspected: {suspect}: {suspect.in_words()}"] if suspect else []):
        journal.say(line)
    if lines:
        journal.event("stacks", **StacksReport(suspect=suspect, stuck=desync.groups).fields())
