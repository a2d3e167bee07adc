"""Processes that a command has left in the background: trainings to wait for, and servers to stop. Pure.

    command ends with 0 --> all are awaited for LEFT_SECONDS
                             |- a rank runs, or a training shows life  --> awaited
                             `- only servers, monitors, shells         --> over: the rest is stopped

A training holds a log file of the job, or the command's own output, and uses CPU or writes. An idle server
does neither; those that poll, such as TensorBoard, are known by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.scripts.script_rank import Process

# Seconds after the end of the command in which every process is awaited.
LEFT_SECONDS = 5.0
# Seconds between two looks, and seconds without a sign of life after which a training is given up.
LOOK_SECONDS = 5.0
LIFE_SECONDS = 60.0
# Characters of a command in a line.
LONGEST_COMMAND = 120
# Share of a core that is a sign of life; an idle server with a heartbeat uses less.
BUSY_SHARE = 0.01
# Programs, and scripts of Python, that are no training: servers, monitors, and tools of start scripts.
_NO_TRAINING = (
    r"(?:tensorboard\S*|raylet|gcs_server|ray|ray::\S*|redis-server|jupyter\S*|visdom|mlflow|wandb-\w+|nginx|sshd"
    r"|crond?|node_exporter|nvidia-smi|npu-smi|dcgm\S*|ping|tail|cat|tee|watch|h?top|[vim][mop]stat|dstat|sar"
    r"|inotifywait|sleep|(?:ba|da|k|z)?sh)(?:\.py)?"
)
# Daemons of Ray are scripts of its package.
_OF_RAY = r"/ray/(?:dashboard|autoscaler|_private|core)/"
_PYTHON = r"(?:python|pypy)[\d.]*"


class LeftProcess(NamedTuple):
    """A process that the command has left: its rank's numbers are in `process`.

    `words` is its command. `log` is the regular file that is its standard output or error, empty for the
    command's own output, and None for neither. `cpu` are its CPU seconds, `written` is a number that grows
    with its log.
    """

    process: Process
    words: tuple[str, ...] = ()
    log: str | None = None
    cpu: float = 0.0
    written: float = 0.0

    def __str__(self) -> str:
        return describe_process(self.process.pid, self.words)


def describe_process(pid: int, words: Sequence[str]) -> str:
    """Formats the command of a process for a line."""
    text = " ".join(words)
    return f"{text if len(text) <= LONGEST_COMMAND else text[: LONGEST_COMMAND - 3] + '...'} (pid {pid})"


def is_possible_training(left: LeftProcess, places: Collection[str]) -> bool:
    """Returns whether a process may be a training: its log is below one of the job's `places`."""
    words = left.words
    if left.log is None or not words:
        return False
    program = words[0]
    if re.fullmatch(_PYTHON, os.path.basename(program)):
        # The script, or the module after -m.
        program = next((word for word in words[1:] if not word.startswith("-")), "")
    if re.fullmatch(_NO_TRAINING, os.path.basename(program)) or re.search(_OF_RAY, program):
        return False
    return left.log == "" or any(_is_below(left.log, place) for place in places if place)


def _is_below(path: str, place: str) -> bool:
    return os.path.normpath(path).startswith(os.path.join(os.path.normpath(place), ""))


class LeftState(NamedTuple):
    """Processes that a command has left since its end at `began` (monotonic, seconds).

    `latest` are those of the last look at `looked`, None before the first; `alive` is the last sign of life
    of each possible training; `awaited` are those for which the job waits.
    """

    began: float
    places: tuple[str, ...] = ()
    looked: float | None = None
    latest: Mapping[tuple[int, str], LeftProcess] = {}
    alive: Mapping[tuple[int, str], float] = {}
    awaited: tuple[LeftProcess, ...] = ()

    def after_look(self, found: Sequence[LeftProcess], now: float) -> LeftState:
        """After a look that has found these processes."""
        alive = {}
        for left in found:
            key = left.process.key
            if not is_possible_training(left, self.places):
                continue
            before = self.latest.get(key)
            # A process that has appeared since the last look has been started meanwhile; at the first look
            # it may be as old as the command.
            has_life = self._shows_life(before, left, now) if before else self.looked is not None
            alive[key] = now if has_life else self.alive.get(key, self.began)
        is_first = now < self.began + LEFT_SECONDS
        seconds = LIFE_SECONDS if self.awaited else LEFT_SECONDS
        awaited = tuple(
            left
            for left in found
            if left.process.number is not None or now - alive.get(left.process.key, -LIFE_SECONDS) < seconds
        )
        return self._replace(
            looked=now,
            latest={left.process.key: left for left in found},
            alive=alive,
            awaited=() if is_first else awaited,
        )

    def _shows_life(self, before: LeftProcess, left: LeftProcess, now: float) -> bool:
        looked = self.began if self.looked is None else self.looked
        share = (left.cpu - before.cpu) / max(now - looked, 1e-3)
        return share >= BUSY_SHARE or left.written > before.written

    def is_over(self, now: float) -> bool:
        """Returns whether the job waits no longer: nothing is left, or nothing that is worth it."""
        return not self.latest or (now >= self.began + LEFT_SECONDS and not self.awaited)
