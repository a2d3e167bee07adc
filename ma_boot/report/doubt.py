"""Doubt about a success: a command ended with 0, but its output ends in the failure of a process. Pure.

A rank that a script started is in doubt by its exit code, too, where that is known.

`python train.py | tee log`, `python train.py; echo done` and `os.system` hide an exit code. The evidence has
to be the last thing that the command printed: what continues after a failure has survived it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ma_boot.redact import without_secrets
from ma_boot.report.cause import readable
from ma_boot.report.explain import output_lines, output_of_failed_rank
from ma_boot.report.failure import explaining, find_failure, in_one_line, is_short, message_of, ordinary_lines
from ma_boot.report.failure_blocks import LAUNCHER, PROOF, failure_blocks
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

# Output without any of these is not searched further.
_SIGNS = (
    "Traceback (most", "SyntaxError: ", "IndentationError: ", "TabError: ", "terminate called",
    "= FAILURES =", "= ERRORS =",
    "Fatal Python", "Segmentation fault", "Bus error", "Aborted", "Illegal instruction",
    "Floating point exception",
    "The first process to do so", "mpirun noticed", "exits with return code",
    "not found", "can't open file", ": No module named ",
    "Check failure stack trace", "panicked at", ": Assertion ",
)  # fmt: skip
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
    """Returns the first doubt among the processes that ended with 0 by themselves; None if there is none.

    The words of a failure explain more than an exit code.
    """
    well = [ended for ended in exits if ended.code == 0 and not ended.stopped]
    by_words = next(filter(None, map(_doubt_by_words, well)), None)
    return by_words or next((_doubt_by_code(ended) for ended in well if ended.hidden), None)


def _doubt_by_code(ended: WorkerExit) -> Doubt:
    words = Message.of("{} {}", ended.label, Message.of("ended with exit code {}", ended.hidden))
    return Doubt(ended.label, ended.rank, words, "", ended.log_file)


def _doubt_by_words(ended: WorkerExit) -> Doubt | None:
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
    failures = [block for block in blocks if block.weight == PROOF]
    if not failures or not is_short(ordinary_lines(lines, blocks)[failures[-1].end :]):
        return None
    first = explaining(lines, blocks, failures[-1])
    words = in_one_line(message_of(lines, blocks, first), first.words)
    if first.source == LAUNCHER:
        return _of_failed_rank(output) or (words, first.place)
    return words, first.place or failures[-1].place


def _of_failed_rank(output: str) -> tuple[str, str] | None:
    """Returns words and place of the rank that Open MPI names as the first to fail, from its tagged lines."""
    failed = output_of_failed_rank(output)
    failure = find_failure(failed) if failed != output else None
    return None if failure is None else (failure.words, failure.place)
