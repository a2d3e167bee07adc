"""Doubt about a success: a command ended with 0, but its output ends in the failure of a process. Pure.

`python train.py | tee log`, `python train.py; echo done` and `os.system` hide an exit code. The evidence has
to be the last thing that the command printed: what continues after a failure has survived it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ma_boot.redact import without_secrets
from ma_boot.report.cause import readable
from ma_boot.report.explain import last_exception, output_lines, output_of_failed_rank, place_of_exception
from ma_boot.report.failure_blocks import AFTER_DEATH, LAUNCHER, FailureBlock, failure_blocks
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

# Of what may follow the failure, such as `echo done`: lines and characters.
MOST_LINES_AFTER = 10
MOST_CHARACTERS_AFTER = 2048
# Output without any of these is not searched further.
_SIGNS = (
    "Traceback (most", "SyntaxError: ", "IndentationError: ", "TabError: ", "terminate called",
    "= FAILURES =", "= ERRORS =",
    "Fatal Python", "Segmentation fault", "Bus error", "Aborted", "Illegal instruction",
    "Floating point exception",
    "The first process to do so", "mpirun noticed", "exits with return code",
    "not found", "can't open file", ": No module named ",
)  # fmt: skip
# Lines that libraries print as they end: trackers of experiments, and progress bars that were interrupted.
_OF_THE_END = r"\s*$|(?:wandb|swanlab): |(?!.*\b100%).{0,200}\d%\|"
# Lines of a training that continues or is started again; torchrun reports a failed rank before a restart so.
_WENT_ON = (
    r"(?i)(?:\b|_)(?:step|epoch|iter|iteration|batch)s?\b\W{0,4}\d|\bloss\b\W{0,4}\d"
    r"|\b100%\||\bre-?(?:start|try|tries|sum)|\battempt|\btry(?:ing)? again"
    r"|failed \(exitcode: -?\d{1,9}\) local_rank: \d"
)
REMEDY = Message.of('The command hides its exit code: use "set -o pipefail", or check the return code.')


class Doubt(NamedTuple):
    """Failure of a process below the process `label`, which ended with 0.

    `words` are those of the failure, `place` is its `file:line` or empty.
    """

    label: str
    rank: int | None
    words: str
    place: str
    log_file: str

    def __str__(self) -> str:
        return Message.of("a process of the training failed: {}. {}", self.in_words, REMEDY)

    @property
    def in_words(self) -> str:
        """The failure and its place in one line."""
        return Message.of("{}, at {}", self.words, self.place) if self.place else self.words

    def fields(self) -> dict[str, Any]:
        """Returns the fields for the event and the failure file."""
        return self._asdict()


def doubt_of(exits: Sequence[WorkerExit]) -> Doubt | None:
    """Returns the first doubt among the processes that ended with 0 by themselves; None if there is none."""
    well = (ended for ended in exits if ended.code == 0 and not ended.stopped)
    return next(filter(None, map(_doubt_about, well)), None)


def _doubt_about(ended: WorkerExit) -> Doubt | None:
    found = failure_at_end(ended.output)
    if found is None:
        return None
    words, place = found
    # The sentence goes on after the words.
    shown = readable(without_secrets(words.rstrip(" .:")))
    return Doubt(ended.label, ended.rank, shown, readable(without_secrets(place)), ended.log_file)


# The end of a node asks for the doubt several times, and a search takes some milliseconds for each process.
@lru_cache(maxsize=64)
def failure_at_end(output: str) -> tuple[str, str] | None:
    """Returns words and place of the failure at the end of an output; None if there is none."""
    if not any(sign in output for sign in _SIGNS):
        return None
    lines = output_lines(output)
    blocks = failure_blocks(lines)
    ordinary = _ordinary(lines, blocks)
    failures = [block for block in blocks if block.words]
    if not failures or not _is_short(ordinary[failures[-1].end :]):
        return None
    first = _explanation(ordinary, failures)
    if first.source == LAUNCHER:
        return _of_failed_rank(output) or (first.words, first.place)
    return first.words, first.place or failures[-1].place


def _explanation(ordinary: Sequence[str], failures: Sequence[FailureBlock]) -> FailureBlock:
    """Returns the failure that explains the last one.

    A launcher reports a failure above it, however much its ranks have printed since. A shell, and Python as
    it dies by a signal, may follow at once what the process itself has said.
    """
    chosen = failures[-1]
    for block in reversed(failures[:-1]):
        is_dead = chosen.source == AFTER_DEATH and block.source != LAUNCHER
        is_next = is_dead and _is_short(ordinary[block.end : chosen.start])
        if chosen.source != LAUNCHER and not is_next:
            break
        chosen = block
    return chosen


def _ordinary(lines: Sequence[str], blocks: Sequence[FailureBlock]) -> list[str]:
    """Returns the lines with empty ones for those of blocks, and those that libraries print as they end."""
    inside = {number for block in blocks for number in range(block.start, block.end)}
    return [
        "" if number in inside or re.match(_OF_THE_END, line) else line for number, line in enumerate(lines)
    ]


def _is_short(lines: Sequence[str]) -> bool:
    """Returns whether lines after a failure are so few that it was the end, and none shows a training."""
    lines = list(filter(None, lines))
    if len(lines) > MOST_LINES_AFTER or sum(map(len, lines)) > MOST_CHARACTERS_AFTER:
        return False
    return not any(re.search(_WENT_ON, line) for line in lines)


def _of_failed_rank(output: str) -> tuple[str, str] | None:
    """Returns words and place of the rank that Open MPI names as the first to fail, from its tagged lines."""
    failed = output_of_failed_rank(output)
    words = last_exception(failed) if failed != output else None
    return None if words is None else (words, place_of_exception(failed))
