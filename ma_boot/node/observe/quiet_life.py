"""Signs of life of workers that neither print nor use CPU time: device activity, I/O, waiting for a core."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Event
from typing import NamedTuple

from ma_boot.node.observe.metrics.card_tables import is_busy
from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import io_counters, runnable_seconds
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.sockets import socket_bytes, sockets_of
from ma_boot.processes.task import Task

# seconds that a running device tool gets to end when the detector is closed
END_SECONDS = 0.5
# Share of the time in which a thread was runnable without a core. A thread that polls waits for a core only
# now and then.
RUNNABLE_SHARE = 0.8
# bytes per second; a process that polls a file or /proc, or logs heartbeats, moves less
LIVELY_BYTES = 1 << 16
# seconds between two readings of the devices
SHORTEST_PAUSE = 1.0
# Readings within one check, if the time for it is short.
READINGS_PER_CHECK = 8
# Consecutive idle readings after which a device is idle. In a simulation of a device that computes in every
# seventh reading, 32 consecutive readings were idle once in 60 timeouts.
IDLE_READINGS = 48
# Pause after a reading, as a multiple of its duration: the device tool uses CPU time itself.
WORK_PAUSE = 3.0
# Counters of /proc/PID/io: bytes of files, pipes and terminals; and of storage, which include mapped files
# and system calls that have not returned yet.
_IO_COUNTERS = ("rchar", "wchar", "read_bytes", "write_bytes")


class DataSample(NamedTuple):
    """Bytes moved by a worker's processes and sockets, and runnable seconds of its threads, at a time."""

    when: float
    moved: Mapping[str, int]
    runnable: Mapping[str, float]

    def shows_life_since(self, before: DataSample) -> bool:
        """Returns whether the worker moved data, or waited for a core, between the two samples."""
        seconds = self.when - before.when
        size = sum(max(0, count - before.moved.get(name, count)) for name, count in self.moved.items())
        common = self.runnable.keys() & before.runnable.keys()
        longest = max((self.runnable[thread] - before.runnable[thread] for thread in common), default=0.0)
        return size > LIVELY_BYTES * seconds or longest > RUNNABLE_SHARE * seconds


class DeviceReading(NamedTuple):
    """Devices that computed when the device tool was asked (monotonic seconds)."""

    when: float
    busy: frozenset[int]


class QuietLife:
    """Checks quiet workers for other signs of life. Created once a worker is quiet, as most never are."""

    def __init__(self, inbox: SignalInbox) -> None:
        self._inbox = inbox
        # Time at which each worker (by pid) was last seen to read, write or wait for a core.
        self._moved: dict[int, float] = {}
        self._samples: dict[int, DataSample] = {}
        self._tools: CardTools | None = None
        self._task: Task[list[DeviceReading]] | None = None
        # Time at which each device was last seen to compute.
        self._busy: dict[int, float] = {}
        self._reading_times: deque[float] = deque(maxlen=IDLE_READINGS)

    @property
    def is_reading_devices(self) -> bool:
        """True while the device tool runs in the background."""
        return self._task is not None and not self._task.finished

    def close(self) -> None:
        """Ends the device tool, if it is running."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + END_SECONDS)

    def last_seen(self, worker: Worker) -> float:
        """Returns when the worker last moved data or its device computed; monotonic seconds, or -inf.

        A command that starts the ranks itself owns all devices.
        """
        if self._task is not None and self._task.finished:
            task, self._task = self._task, None
            readings = task.result()
            for reading in readings:
                self._busy.update(dict.fromkeys(reading.busy, reading.when))
            if not readings:
                # The tool has stopped answering: its earlier readings say nothing about the present.
                self._reading_times.clear()
            self._reading_times.extend(reading.when for reading in readings)
        return max(self._moved.get(worker.pid, -math.inf), self.device_seen(worker))

    def device_seen(self, worker: Worker) -> float:
        """Returns when the worker's device last computed, by the results so far."""
        if worker.spec.local_rank is None:
            return max(self._busy.values(), default=-math.inf)
        return self._busy.get(_device_of(worker), -math.inf)

    def is_undecided(self, worker: Worker) -> bool:
        """Returns whether there are device readings, but too few to call the worker's device idle."""
        seen = self.last_seen(worker)
        times = self._reading_times
        return bool(times) and sum(when > seen for when in times) < IDLE_READINGS

    def check_data(self, quiet: Mapping[int, Collection[int]]) -> None:
        """Compares moved data and runnable time with the last check; `quiet` maps worker pids to pids."""
        now = time.monotonic()
        before, self._samples = self._samples, {}
        of_sockets = socket_bytes()
        for worker, members in quiet.items():
            runnable = {thread: spent for pid in members for thread, spent in runnable_seconds(pid).items()}
            sample = DataSample(now, moved_by(members, of_sockets), runnable)
            self._samples[worker] = sample
            if worker in before and sample.shows_life_since(before[worker]):
                self._moved[worker] = now

    def check_devices(self, quiet: Sequence[Worker], seconds: float) -> None:
        """Starts to read the devices of these workers in the background, unless a reading is under way.

        A device that computes is idle from time to time. So it is read for this many `seconds`, or until it
        was seen to compute.
        """
        if self._task is None and quiet:
            environ = quiet[0].spec.environ
            wanted = {_device_of(worker) for worker in quiet if worker.spec.local_rank is not None}
            try:
                self._task = Task(
                    "cards", lambda cancel: self._read(environ, wanted, seconds, cancel=cancel), self._inbox
                )
            except RuntimeError:
                # The limit of threads is reached; the next check tries again.
                return

    def _read(
        self, environ: Mapping[str, str], wanted: set[int], seconds: float, *, cancel: Event
    ) -> list[DeviceReading]:
        """Reads the devices until all `wanted` ones (or any, if none is named) have computed."""
        if self._tools is None:
            self._tools = CardTools(environ)
        until = time.monotonic() + seconds
        readings: list[DeviceReading] = []
        busy: set[int] = set()
        while True:
            began = time.monotonic()
            cards = self._tools.read(cancel)
            if cards:
                readings.append(DeviceReading(began, frozenset(card.card for card in cards if is_busy(card))))
                busy |= readings[-1].busy
            now = time.monotonic()
            pause = max(min(SHORTEST_PAUSE, seconds / READINGS_PER_CHECK), WORK_PAUSE * (now - began))
            is_seen = wanted <= busy if wanted else bool(busy)
            if is_seen or now + pause > until or not self._tools.kind or cancel.wait(pause):
                return readings


def moved_by(members: Iterable[int], of_sockets: Mapping[int, int]) -> dict[str, int]:
    """Returns the bytes that these processes, and each of their sockets, have moved so far."""
    moved: dict[str, int] = {}
    for pid in members:
        counters = io_counters(pid)
        moved[f"process {pid}"] = sum(counters[name] for name in _IO_COUNTERS if name in counters)
        moved.update(
            (f"socket {inode}", of_sockets[inode]) for inode in sockets_of(pid) if inode in of_sockets
        )
    return moved


def _device_of(worker: Worker) -> int:
    """Returns the number of the worker's device in this container."""
    given = worker.spec.environ.get("ASCEND_DEVICE_ID", "")
    return int(given) if given.isdecimal() else worker.spec.local_rank or 0
