"""Takes a sample of the ranks, the cards and the machine every few seconds, and writes it as an event."""

from __future__ import annotations

import math
import os
import threading
import time
from threading import Event
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ma_boot.observe.cards import CardTools
from ma_boot.observe.pattern_search import PatternSearch
from ma_boot.observe.progress import Reading, TrainingProgress, given
from ma_boot.observe.record import CardSample, HostSample, RankSample, RankUsage, Sample, event_of, exposition
from ma_boot.observe.usage import RankMeter, sample_host
from ma_boot.processes import SignalInbox, Task, process_usages
from ma_boot.reporting import Journal
from ma_boot.supervisor.worker_group import Worker

if TYPE_CHECKING:
    from ma_boot.observe.endpoint import Endpoint

WRITTEN_SHARE = 360  # an event is written once in this part of the time since the start
LONGEST_PERIOD = 60.0  # seconds between two events
SHARE = 0.005  # of a core, which samples may take where the interval is not shorter than the default
DEFAULT_INTERVAL = 10.0


class Watched(NamedTuple):
    """A process that is sampled until it is no longer `running`.

    `output` returns how many bytes it has printed, those after a position as far as they are still known, and
    when the last ones came (monotonic seconds).
    """

    label: str
    rank: Optional[int]
    pid: int
    running: Callable[[], bool]
    output: Callable[[int], Tuple[int, bytes, float]]


class Sampling(NamedTuple):
    """Seconds between samples, the user's patterns (`NAME=REGEX`), directories of disks to look at.

    `environ` is that of the tools of cards. `port` is where the last sample of `node` is served: `PORT` or
    `ADDRESS:PORT`, empty for nowhere.
    """

    interval: float
    patterns: Tuple[str, ...] = ()
    disks: Tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    port: str = ""
    node: int = 0


class Sampler:
    """Samples processes that have been running since `started` (monotonic, seconds)."""

    def __init__(
        self,
        options: Sampling,
        watched: Sequence[Watched],
        started: float,
        say: Callable[[str], None],
        event: Callable[..., None],
    ) -> None:
        self._options = options
        self._watched = watched
        self._started = started
        self._say = say
        self._event = event
        own = tuple(map(given, options.patterns))
        self._meters = [RankMeter(one.pid) for one in watched]
        self._search = PatternSearch(say)
        self._progress = [TrainingProgress(own, self._search.last_value) for _ in watched]
        self._readings = [Reading() for _ in watched]  # since the last event
        self._latest = [Reading() for _ in watched]  # of the whole run
        self._tools = CardTools(options.environ)
        self._cards: Tuple[CardSample, ...] = ()
        self._new_cards: Tuple[CardSample, ...] = ()  # since the last event
        self._not_finite = False
        self._endpoint: Optional[Endpoint] = None
        self._slow = SlowRanks()
        self._step_times: Dict[int, float] = {}  # since all ranks were compared
        self._reporting: List[int] = []  # ranks that have told a step time
        self._written = Sample(started, (), HostSample(None, 1, None, {}, None, None))

    def run(self, cancel: threading.Event) -> None:
        """Takes samples until it is cancelled, and then reads what was printed last.

        An error is said and ends the sampling.
        """
        try:
            self._serve()
            due = self._started + self._options.interval
            while not cancel.wait(max(0.0, due - time.monotonic())):
                before = time.thread_time()
                self._sample(cancel)
                pause = self._pause(time.thread_time() - before)
                due = max(due + pause, time.monotonic())
            self._finish()
        except Exception as error:  # no figure is worth a training
            self._say(f"metrics are no longer taken: {type(error).__name__}: {error}")
        finally:
            self._search.close()
            if self._endpoint is not None:
                self._endpoint.close()

    def _pause(self, spent: float) -> float:
        """Seconds from one sample to the next, by the CPU seconds of the one: there may be many processes."""
        interval = self._options.interval
        return interval if interval < DEFAULT_INTERVAL else max(interval, spent / SHARE)

    def _serve(self) -> None:
        """Opens the port, with a first sample, which is no event: its period is too short."""
        if not self._options.port:
            return
        from ma_boot.observe.endpoint import Endpoint  # only for those who ask for it

        try:
            self._endpoint = Endpoint(self._options.port)
        except OSError as error:
            self._say(f"metrics are not served at {self._options.port}: {error.strerror or error}")
            return
        self._publish(self._now()[0])
        self._say(f"metrics: http://{self._endpoint.at}/metrics")

    def _sample(self, cancel: threading.Event) -> None:
        """Takes a sample, serves it, and writes it if it is time."""
        self._new_cards = self._tools.sample(cancel) or self._new_cards
        self._cards = self._new_cards or self._cards
        sample, latest = self._now()
        self._publish(latest)
        if sample.at - self._written.at >= self._period(sample.at):
            self._write(sample)

    def _now(self) -> Tuple[Sample, Sample]:
        """What is new since the last event, and the last that is known of everything."""
        now = time.monotonic()
        processes = process_usages()
        usages = [
            meter.measure(processes) if one.running() else None
            for one, meter in zip(self._watched, self._meters)
        ]
        self._read()
        host, kind = sample_host(self._options.disks), self._tools.kind
        return (
            Sample(now, self._ranks(usages, self._readings), host, kind, self._new_cards),
            Sample(now, self._ranks(usages, self._latest), host, kind, self._cards),
        )

    def _ranks(
        self, usages: Sequence[Optional[RankUsage]], readings: Sequence[Reading]
    ) -> Tuple[RankSample, ...]:
        every = zip(self._watched, usages, readings)
        return tuple(RankSample(one.label, one.rank, usage, reading) for one, usage, reading in every)

    def _publish(self, latest: Sample) -> None:
        if self._endpoint is not None:
            self._endpoint.text = exposition(latest, self._options.node, self._slow.named)

    def _period(self, now: float) -> float:
        """Seconds between two events: the longer a training runs, the more, so that the file stays small."""
        share = min(LONGEST_PERIOD, (now - self._started) / WRITTEN_SHARE)
        return max(self._options.interval, share) * 0.99

    def _write(self, sample: Sample) -> None:
        self._event("metrics", **event_of(self._written, sample))
        self._written, self._new_cards = sample, ()
        self._readings = [Reading() for _ in self._watched]

    def _finish(self) -> None:
        """The last lines, of processes that have ended."""
        self._read()
        if any(reading != Reading() for reading in self._readings):
            ranks = self._ranks([None] * len(self._watched), self._readings)
            self._write(Sample(time.monotonic(), ranks, sample_host(self._options.disks)))

    def _read(self) -> None:
        """What was printed since the last look, added to what was read since the last event."""
        for at, one in enumerate(self._watched):
            progress = self._progress[at]
            new = progress.read(*one.output(progress.position))
            self._readings[at] = _merged(self._readings[at], new)
            self._latest[at] = _merged(self._latest[at], new)
            self._judge(one.label, new)
            if one.rank is not None and new.step_time is not None:
                self._step_times[one.rank] = new.step_time
                if one.rank not in self._reporting:
                    self._reporting.append(one.rank)
        if self._step_times and len(self._step_times) == len(self._reporting):
            self._compare()

    def _judge(self, label: str, new: Reading) -> None:
        """Says once if the loss is no number: what is trained from then on is lost."""
        if new.loss is not None and not math.isfinite(new.loss) and not self._not_finite:
            self._not_finite = True
            at = "" if new.step is None else f" at step {new.step}"
            self._event("loss not finite", label=label, step=new.step, loss=str(new.loss))
            self._say(f"{label}: the loss is {new.loss}{at}")

    def _compare(self) -> None:
        for slow in self._slow.observe(self._step_times):
            self._event("slow rank", **slow._asdict())
            self._say(
                f"rank {slow.rank} is slower than the others: {slow.step_time:.3g} s a step, "
                f"theirs {slow.others:.3g} s"
            )
        self._step_times = {}


def _merged(before: Reading, new: Reading) -> Reading:
    """The newer values, and older ones where there is none."""
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
        self.named: Set[int] = set()
        self._slow: Dict[int, int] = {}
        self._well: Dict[int, int] = {}

    def observe(self, step_times: Mapping[int, float]) -> List[Slow]:
        """The ranks that are to be named now, by the seconds a step of all ranks that have made one."""
        found = []
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
                found.append(Slow(rank, seconds, mean))
        return found


FINISH_SECONDS = 0.5  # for the last lines; a disk that does not answer may hold the thread forever


class Metrics(NamedTuple):
    """What is sampled: every `interval` seconds, 0 for never; `patterns` are the user's (`NAME=REGEX`).

    The last sample of this `node` is served at `port` (`PORT` or `ADDRESS:PORT`), if it is not empty.
    """

    interval: float = 0.0
    patterns: Tuple[str, ...] = ()
    port: str = ""
    node: int = 0


NOT_SAMPLED = Metrics()


class MetricsTask:
    """Samples workers from the end of the first interval on; nothing of it is loaded before."""

    def __init__(self, metrics: Metrics, inbox: SignalInbox, journal: Journal) -> None:
        self._metrics = metrics
        self._inbox = inbox
        self._journal = journal
        self._task: Optional[Task[None]] = None
        self._started = time.monotonic()
        first = 0.0 if metrics.port else metrics.interval
        self._due = self._started + first if metrics.interval else math.inf

    def __enter__(self) -> MetricsTask:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends the sampling, once it has read the last lines."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + FINISH_SECONDS)

    def patience(self) -> float:
        """Seconds until `check` should be called."""
        return max(0.0, self._due - time.monotonic())

    def check(self, workers: Sequence[Worker]) -> None:
        """Starts the sampling, if it is due."""
        if time.monotonic() < self._due:
            return
        self._due = math.inf
        try:
            self._task = Task("metrics", lambda cancel: self._sample(workers, cancel), self._inbox)
        except RuntimeError as error:  # the limit of threads
            self._journal.say(f"no metrics: {error}")

    def _sample(self, workers: Sequence[Worker], cancel: Event) -> None:
        try:
            places = dict.fromkeys(
                (*(worker.spec.cwd for worker in workers[:1]),
                 *(os.path.dirname(worker.spec.log_file) for worker in workers[:1]),
                 "/cache", "/dev/shm")
            )  # fmt: skip
            environ = workers[0].spec.environ if workers else {}
            options = Sampling(
                self._metrics.interval, self._metrics.patterns, tuple(places), environ, self._metrics.port,
                self._metrics.node,
            )  # fmt: skip
            say, event = self._journal.say, self._journal.event
            Sampler(options, [_watched(one) for one in workers], self._started, say, event).run(cancel)
        except Exception as error:  # no figure is worth a training
            self._journal.say(f"no metrics: {type(error).__name__}: {error}")


def _watched(worker: Worker) -> Watched:
    return Watched(
        worker.spec.label, worker.spec.rank, worker.pid, lambda: worker.exit is None, worker.output.since
    )
