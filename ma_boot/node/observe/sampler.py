"""Takes a sample of the ranks, the cards and the machine every few seconds, and writes it as an event."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ma_boot.node.observe.cards import CardTools
from ma_boot.node.observe.pattern_search import PatternSearch
from ma_boot.node.observe.progress import Reading, TrainingProgress, given
from ma_boot.node.observe.record import (
    CardSample,
    HostSample,
    RankSample,
    RankUsage,
    Sample,
    event_of,
    exposition,
)
from ma_boot.node.observe.usage import RankMeter, sample_host
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import process_usages
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal

if TYPE_CHECKING:
    from ma_boot.node.observe.endpoint import Endpoint
    from ma_boot.node.observe.spent import GrowingEvents

WRITTEN_SHARE = 360  # an event is written once in this part of the time since the start
LONGEST_PERIOD = 60.0  # seconds between two events
LOOK_SECONDS = 1.0  # that a sample waits for a look at the cards
SHARE = 0.005  # of a core, which samples may take where the interval is not shorter than the default
DEFAULT_INTERVAL = 10.0


class Sampling(NamedTuple):
    """What is sampled: every `interval` seconds, 0 for never; `patterns` are the user's (`NAME=REGEX`).

    The last sample of this `node` is served at `port` (`PORT` or `ADDRESS:PORT`), if it is not empty, with
    where its time went by the `events` of its file.
    """

    interval: float = 0.0
    patterns: tuple[str, ...] = ()
    port: str = ""
    node: int = 0
    events: Path | None = None

    def pause(self, spent: float) -> float:
        """Seconds from one sample to the next, by the CPU seconds of the one: there may be many processes."""
        return self.interval if self.interval < DEFAULT_INTERVAL else max(self.interval, spent / SHARE)

    def period(self, lasted: float) -> float:
        """Seconds between two events: the longer a training runs, the more, so that the file stays small."""
        return max(self.interval, min(LONGEST_PERIOD, lasted / WRITTEN_SHARE)) * 0.99


class Sampler:
    """Samples workers, each until it ends, that have been running since `started` (monotonic, seconds)."""

    def __init__(
        self, options: Sampling, workers: Sequence[Worker], started: float, journal: Journal
    ) -> None:
        self._options = options
        self._workers = workers
        spec = workers[0].spec if workers else None
        places = (spec.cwd, os.path.dirname(spec.log_file)) if spec else ()
        self._disks = tuple(dict.fromkeys((*places, "/cache", "/dev/shm")))
        self._started = started
        self._journal = journal
        own = tuple(map(given, options.patterns))
        self._meters = [RankMeter(worker.pid) for worker in workers]
        self._search = PatternSearch(journal.warn)
        self._progress = [TrainingProgress(own, self._search.last_value) for _ in workers]
        self._readings = [Reading() for _ in workers]  # since the last event
        self._latest = [Reading() for _ in workers]  # of the whole run
        self._tools = CardTools(spec.environ if spec else {})
        self._looking: threading.Thread | None = None  # at the cards
        self._seen_cards: tuple[CardSample, ...] = ()  # by the last look
        self._has_failed = False
        self._cards: tuple[CardSample, ...] = ()
        self._new_cards: tuple[CardSample, ...] = ()  # since the last event
        self._not_finite = False
        self._endpoint: Endpoint | None = None
        self._events: GrowingEvents | None = None
        self._slow = SlowRanks()
        self._step_times: dict[int, float] = {}  # since all ranks were compared
        self._reporting: list[int] = []  # ranks that have told a step time
        self._written = Sample(started, (), HostSample())

    def run(self, cancel: threading.Event) -> None:
        """Takes samples until it is cancelled, and then reads what was printed last.

        A sample that fails is dropped, and said for the first one; raises whatever else fails.
        """
        try:
            self._serve()
            due = self._started + self._options.interval
            while not cancel.wait(max(0.0, due - time.monotonic())):
                before = time.thread_time()
                with self._dropped():
                    self._sample(cancel)
                pause = self._options.pause(time.thread_time() - before)
                due = max(due + pause, time.monotonic())
            with self._dropped():
                self._finish()
        finally:
            if self._looking is not None:  # it ends a tool that hangs, as `cancel` is set
                self._looking.join(LAST_LOOK_SECONDS)
            self._search.close()
            if self._endpoint is not None:
                self._endpoint.close()

    @contextmanager
    def _dropped(self) -> Iterator[None]:
        """Drops a sample that fails."""
        try:
            yield
        except Exception as error:  # of a number that nobody has thought of
            if not self._has_failed:
                self._has_failed = True
                self._journal.warn(f"a sample of the metrics is dropped: {type(error).__name__}: {error}")

    def _look_at_cards(self, cancel: threading.Event) -> None:
        """Takes what a look at the cards has found, which a tool that hangs delays for itself alone."""

        def look() -> None:
            self._seen_cards = self._tools.sample(cancel)

        if self._looking is None and self._tools.due:
            self._looking = threading.Thread(target=look, name="cards", daemon=True)
            self._looking.start()
        if self._looking is not None:
            self._looking.join(min(LOOK_SECONDS, self._options.interval / 2))
            if not self._looking.is_alive():
                self._looking = None
                self._new_cards = self._seen_cards or self._new_cards
                self._cards = self._new_cards or self._cards

    def _serve(self) -> None:
        """Opens the port, with a first sample, which is no event: its period is too short."""
        if not self._options.port:
            return
        from ma_boot.node.observe.endpoint import Endpoint  # only for those who ask for it
        from ma_boot.node.observe.spent import GrowingEvents

        try:
            self._endpoint = Endpoint(self._options.port)
        except OSError as error:
            self._journal.warn(f"metrics are not served at {self._options.port}: {error.strerror or error}")
            return
        if self._options.events is not None:
            self._events = GrowingEvents(self._options.events, self._options.node)
        self._publish(self._now()[0])
        self._journal.say(f"metrics: http://{self._endpoint.at}/metrics")

    def _sample(self, cancel: threading.Event) -> None:
        """Takes a sample, serves it, and writes it if it is time."""
        self._look_at_cards(cancel)
        sample, latest = self._now()
        self._publish(latest)
        if sample.at - self._written.at >= self._options.period(sample.at - self._started):
            self._write(sample)

    def _now(self) -> tuple[Sample, Sample]:
        """What is new since the last event, and the last that is known of everything."""
        now = time.monotonic()
        processes = process_usages()
        usages = [
            meter.measure(processes) if worker.exit is None else None
            for worker, meter in zip(self._workers, self._meters)
        ]
        self._read()
        host, kind = sample_host(self._disks), self._tools.kind
        return (
            Sample(now, self._ranks(usages, self._readings), host, kind, self._new_cards),
            Sample(now, self._ranks(usages, self._latest), host, kind, self._cards),
        )

    def _ranks(
        self, usages: Sequence[RankUsage | None], readings: Sequence[Reading]
    ) -> tuple[RankSample, ...]:
        every = zip(self._workers, usages, readings)
        return tuple(
            RankSample(rank.spec.label, rank.spec.rank, usage, reading) for rank, usage, reading in every
        )

    def _publish(self, latest: Sample) -> None:
        if self._endpoint is not None:
            spent: Mapping[str, float] = {}
            with suppress(OSError):  # a file that somebody has removed
                spent = self._events.time_spent() if self._events is not None else {}
            self._endpoint.text = exposition(latest, self._options.node, self._slow.named, spent)

    def _write(self, sample: Sample) -> None:
        self._journal.event("metrics", **event_of(self._written, sample))
        self._written, self._new_cards = sample, ()
        self._readings = [Reading() for _ in self._workers]

    def _finish(self) -> None:
        """The last lines, of processes that have ended."""
        self._read()
        if any(reading != Reading() for reading in self._readings):
            ranks = self._ranks([None] * len(self._workers), self._readings)
            self._write(Sample(time.monotonic(), ranks, sample_host(self._disks)))

    def _read(self) -> None:
        """What was printed since the last look, added to what was read since the last event."""
        for at, worker in enumerate(self._workers):
            progress, rank = self._progress[at], worker.spec.rank
            new = progress.read(*worker.output.since(progress.position))
            self._readings[at] = _merged(self._readings[at], new)
            self._latest[at] = _merged(self._latest[at], new)
            self._judge(worker.spec.label, new)
            if rank is not None and new.step_time is not None:
                self._step_times[rank] = new.step_time
                if rank not in self._reporting:
                    self._reporting.append(rank)
        if self._step_times and len(self._step_times) == len(self._reporting):
            self._compare()

    def _judge(self, label: str, new: Reading) -> None:
        """Says once if the loss is no number: what is trained from then on is lost."""
        if new.loss is not None and not math.isfinite(new.loss) and not self._not_finite:
            self._not_finite = True
            at = "" if new.step is None else f" at step {new.step}"
            self._journal.event("loss not finite", label=label, step=new.step, loss=str(new.loss))
            self._journal.warn(f"{label}: the loss is {new.loss}{at}")

    def _compare(self) -> None:
        for slow in self._slow.observe(self._step_times):
            self._journal.event("slow rank", **slow._asdict())
            self._journal.warn(
                f"rank {slow.rank} is slower than the others: {slow.step_time:.3g} s a step, "
                f"theirs {slow.others:.3g} s"
            )
        self._step_times = {}


def _merged(before: Reading, new: Reading) -> Reading:
    """The newer values, or else the older ones."""
    return Reading(
        before.step if new.step is None else new.step,
        before.step_time if new.step_time is None else new.step_time,
        before.loss if new.loss is None else new.loss,
        {**before.values, **new.values},
    )


SIGMAS = 3.0
TIMES = 3  # samples in a row
LEAST = 1.05  # times as long as the others': less is no reason to look for a cause
FEWEST_OTHERS = 3


class Slow(NamedTuple):
    """A rank, its seconds a step, and the mean of the others'."""

    rank: int
    step_time: float
    others: float


class SlowRanks:
    """Names a rank once when its steps have taken longer than those of the others, `TIMES` samples in a row.

    Longer is what is above their mean by three standard deviations. Both are those of the *other* ranks: one
    of n values is never more than (n - 1) / sqrt(n) deviations above a mean that includes it, which is 2.5
    for eight ranks. After as many samples that are not slow a rank may be named again.
    """

    def __init__(self) -> None:
        self.named: set[int] = set()
        self._slow: dict[int, int] = {}
        self._well: dict[int, int] = {}

    def observe(self, step_times: Mapping[int, float]) -> list[Slow]:
        """The ranks that are to be named now, by the seconds a step of all ranks that have made one."""
        slow = []
        for rank, seconds in step_times.items():
            others = [other for at, other in step_times.items() if at != rank]
            if len(others) < FEWEST_OTHERS:
                return []
            mean = sum(others) / len(others)
            sigma = math.sqrt(sum((other - mean) ** 2 for other in others) / (len(others) - 1))
            if seconds > max(mean + SIGMAS * sigma, mean * LEAST):
                self._slow[rank], self._well[rank] = self._slow.get(rank, 0) + 1, 0
            else:
                self._slow[rank], self._well[rank] = 0, self._well.get(rank, 0) + 1
            if self._well[rank] >= TIMES:
                self.named.discard(rank)
            if self._slow[rank] >= TIMES and rank not in self.named:
                self.named.add(rank)
                slow.append(Slow(rank, seconds, mean))
        return slow


LAST_LOOK_SECONDS = 0.3  # in which a tool of the cards is killed
FINISH_SECONDS = 0.5  # for the last lines; a disk that does not answer may hold the thread forever


class Metrics:
    """Samples workers from the end of the first interval on, in a thread; an `Observer`."""

    without = "no metrics"

    def __init__(self, options: Sampling, inbox: SignalInbox, journal: Journal) -> None:
        self._options = options
        self._inbox = inbox
        self._journal = journal
        self._task: Task[None] | None = None
        self._started = time.monotonic()
        first = 0.0 if options.port else options.interval
        self._due = self._started + first if options.interval else math.inf

    def patience(self) -> float:
        """Seconds until the sampling starts."""
        return max(0.0, self._due - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Starts the sampling, if it is due. Raises what the start of a thread raises."""
        if time.monotonic() >= self._due:
            self._due = math.inf
            self._task = Task("metrics", lambda cancel: self._sample(workers, cancel), self._inbox)
        return ""

    def close(self) -> None:
        """Ends the sampling, once it has read the last lines."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + FINISH_SECONDS)

    def _sample(self, workers: Sequence[Worker], cancel: threading.Event) -> None:
        with self._journal.best_effort(self.without):
            Sampler(self._options, workers, self._started, self._journal).run(cancel)
