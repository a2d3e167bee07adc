"""Samples the ranks, the cards and the machine every few seconds, and writes the samples as events.

Metrics (observer of the run)
  `- Sampler, in a thread: one sample per interval
       |- UsageReader     /proc: CPU, memory, I/O of the ranks; the machine
       |- OutputReader    output of the ranks: step, loss, values of `--metric`
       |- CardPoller      npu-smi, NVML
       |- TrainingWatch   rules: slow ranks, loss that is not finite
       |- Endpoint        last sample for Prometheus (`--metrics-port`)
       `- journal         events `metrics`, `slow rank`, `loss not finite`
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ma_boot.node.observe.metrics.card_poller import CardPoller
from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.node.observe.metrics.output_reader import Readings, ReadNews
from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.node.observe.metrics.record import HostSample, RankSample, RankUsage, Sample, event_of
from ma_boot.node.observe.metrics.source import Source, Sources
from ma_boot.node.observe.metrics.training_rules import LossNotFinite, SlowRank, TrainingWatch
from ma_boot.node.observe.metrics.usage import UsageReader
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal

if TYPE_CHECKING:
    from ma_boot.node.observe.metrics.endpoint import Endpoint

# An event covers at least this part of the time since the start, so that the file of a long run stays small.
PERIOD_SHARE = 1 / 360
# Seconds; longest period of an event.
LONGEST_PERIOD = 60.0
# Share of a core that samples may use, unless the user asks for a shorter interval than the default.
CPU_SHARE = 0.005
# Seconds between two samples.
DEFAULT_INTERVAL = 10.0
# Seconds; max. wait for the last lines of the ranks: a network disk may block the thread forever.
FINISH_SECONDS = 0.5


class Sampling(NamedTuple):
    """Options of the sampling.

    A sample is taken every `interval` seconds (0: never). The last sample of this `node` is served at `port`
    (`PORT` or `ADDRESS:PORT`, empty: not at all), with the use of the node's time by its file of `events`.
    """

    interval: float = 0.0
    port: str = ""
    node: int = 0
    events: Path | None = None

    def pause(self, spent: float) -> float:
        """Seconds from one sample to the next, if one takes `spent` seconds of CPU time."""
        return self.interval if self.interval < DEFAULT_INTERVAL else max(self.interval, spent / CPU_SHARE)

    def period(self, lasted: float) -> float:
        """Seconds between two events, after a run of `lasted` seconds."""
        # 1 % less, as the intervals of samples vary a little.
        return max(self.interval, min(LONGEST_PERIOD, lasted * PERIOD_SHARE)) * 0.99


class Sampler:
    """Samples workers, each until it ends, that have been running since `started` (monotonic, seconds)."""

    def __init__(
        self,
        options: Sampling,
        workers: Sequence[Worker],
        started: float,
        *,
        read: ReadNews,
        journal: Journal,
    ) -> None:
        self._options = options
        self._started = started
        self._journal = journal
        self._sources = Sources(workers)
        self._usage = UsageReader(workers[0].spec if workers else None)
        self._output = Readings(read)
        environ = workers[0].spec.environ if workers else {}
        self._cards = CardPoller(CardTools(environ), options.interval)
        self._watch = TrainingWatch()
        self._endpoint: Endpoint | None = None
        self._written = Sample(started, (), HostSample())
        self._has_failed = False
        self._reported: set[str] = set()

    def run(self, cancel: threading.Event) -> None:
        """Takes samples until it is cancelled, then reads the last lines of the ranks.

        A failed sample is dropped, and reported once; other errors are raised.
        """
        try:
            self._serve()
            self._report_missing_package()
            due = self._started + self._options.interval
            while not cancel.wait(max(0.0, due - time.monotonic())):
                before = time.thread_time()
                with self._dropping_failures():
                    self._sample(cancel)
                pause = self._options.pause(time.thread_time() - before)
                due = max(due + pause, time.monotonic())
            with self._dropping_failures():
                self._finish()
        finally:
            self._cards.close()
            if self._endpoint is not None:
                self._endpoint.close()

    @contextmanager
    def _dropping_failures(self) -> Iterator[None]:
        """Drops a sample that fails: figures in `/proc` or in an output may have any form."""
        try:
            yield
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                self._journal.warn(f"a sample of the metrics is dropped: {type(error).__name__}: {error}")

    def _serve(self) -> None:
        """Opens the port, with a first sample that is no event: its period would be too short."""
        if not self._options.port:
            return
        from ma_boot.node.observe.metrics.endpoint import Endpoint

        try:
            self._endpoint = Endpoint(self._options.port, self._options.node, self._options.events)
        except OSError as error:
            self._journal.warn(f"metrics are not served at {self._options.port}: {error.strerror or error}")
            return
        self._read_output()
        self._publish(self._usage.of_ranks(self._sources.all()), time.monotonic(), self._usage.of_host())
        self._journal.say(f"metrics: http://{self._endpoint.at}/metrics")

    def _sample(self, cancel: threading.Event) -> None:
        """Takes a sample, serves it, and writes an event if its period is over."""
        self._cards.poll(cancel)
        self._report_defects()
        now, usages = time.monotonic(), self._usage.of_ranks(self._sources.all())
        host = self._usage.of_host()
        self._read_output()
        self._publish(usages, now, host)
        if now - self._written.at >= self._options.period(now - self._started):
            ranks = self._ranks(usages, self._output.of_period)
            self._write(Sample(now, ranks, host, self._cards.kind, self._cards.of_period))

    def _finish(self) -> None:
        """Writes what the processes had printed last before they ended."""
        self._read_output()
        if self._output.has_news:
            ranks = self._ranks({}, self._output.of_period)
            self._write(Sample(time.monotonic(), ranks, self._usage.of_host()))

    def _ranks(
        self, usages: Mapping[Source, RankUsage], readings: Mapping[Source, Reading]
    ) -> tuple[RankSample, ...]:
        return tuple(
            RankSample(source.label, source.rank, usages.get(source), readings.get(source, Reading()))
            for source in self._sources.all()
        )

    def _publish(self, usages: Mapping[Source, RankUsage], now: float, host: HostSample) -> None:
        if self._endpoint is not None:
            ranks = self._ranks(usages, self._output.of_run)
            sample = Sample(now, ranks, host, self._cards.kind, self._cards.of_run)
            self._endpoint.publish(sample, self._watch.slow.named)

    def _write(self, sample: Sample) -> None:
        self._journal.event("metrics", **event_of(self._written, sample))
        self._written = sample
        self._output.begin_period()
        self._cards.begin_period()

    def _read_output(self) -> None:
        """Reads the new output, and reports what the rules find in it."""
        for source, new, _ in self._output.read(self._sources.all()):
            self._watch, loss = self._watch.after_reading(source.label, source.rank, new)
            if loss is not None:
                self._report_loss(loss)
        self._watch, slow = self._watch.compared()
        for rank in slow:
            self._report_slow(rank)

    def _report_missing_package(self) -> None:
        """Reports that the GPUs of this container cannot be read."""
        from ma_boot.node.observe.metrics.nvml import has_driver, has_package

        if has_driver() and not has_package():
            from ma_boot.node.environment.extras import install_command

            self._journal.warn(f"no values of the GPUs: {install_command('gpu')} adds them")

    def _report_defects(self) -> None:
        """Reports each defect of a GPU once; those of NPUs are states that may pass."""
        cards = self._cards.of_period if self._cards.kind == "gpu" else ()
        for health in {card.health for card in cards if card.health not in (None, "OK")} - self._reported:
            self._reported.add(str(health))
            self._journal.warn(str(health))

    def _report_loss(self, found: LossNotFinite) -> None:
        at = "" if found.step is None else f" at step {found.step}"
        self._journal.event("loss not finite", label=found.label, step=found.step, loss=str(found.loss))
        self._journal.warn(f"{found.label}: the loss is {found.loss}{at}")

    def _report_slow(self, found: SlowRank) -> None:
        self._journal.event("slow rank", **found._asdict())
        self._journal.warn(
            f"rank {found.rank} is slower than the others: {found.step_time:.3g} s a step, "
            f"theirs {found.others:.3g} s"
        )


class Metrics:
    """Observer of a run that samples the workers in a thread, from the end of the first interval on."""

    without = "no metrics"

    def __init__(self, options: Sampling, inbox: SignalInbox, journal: Journal, *, read: ReadNews) -> None:
        self._options = options
        self._read = read
        self._inbox = inbox
        self._journal = journal
        self._task: Task[None] | None = None
        self._started = time.monotonic()
        # With a port the first sample is served at once.
        first = 0.0 if options.port else options.interval
        self._due = self._started + first if options.interval else math.inf

    def patience(self) -> float:
        """Seconds until the sampling starts."""
        return max(0.0, self._due - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Starts the sampling once it is due. Raises `RuntimeError` if no thread can be started."""
        if time.monotonic() >= self._due:
            self._due = math.inf
            self._task = Task("metrics", lambda cancel: self._sample(workers, cancel), self._inbox)
        return ""

    def close(self) -> None:
        """Ends the sampling once it has read the last lines."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + FINISH_SECONDS)

    def _sample(self, workers: Sequence[Worker], cancel: threading.Event) -> None:
        with self._journal.best_effort(self.without):
            Sampler(self._options, workers, self._started, read=self._read, journal=self._journal).run(cancel)
