"""Failure that an output ends in: words, whole message and place. Pure.

What the failed process itself has printed explains more than the report of a shell, a launcher or a wrapper
above it. So the search begins at the last failure and goes back to the one that it reports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ma_boot.redact import without_secrets
from ma_boot.report.explain import output_lines
from ma_boot.report.failure_blocks import (
    AFTER_DEATH,
    CHAINED,
    HANDLED,
    LAUNCHER,
    OWN,
    PROOF,
    FailureBlock,
    end_of_message,
    failure_blocks,
)

TAIL_LINES = 20
MOST_SHOWN_LINES = 30
# Lines that libraries print after the exception that ends a process. More lines mean that it went on.
MOST_LINES_AFTER = 40
MOST_LINES_AFTER_STOPPED = 15
# Of what may follow a failure that ended a process below a command, such as `echo done`: lines, characters.
MOST_ORDINARY_LINES = 10
MOST_ORDINARY_CHARACTERS = 2048
# Lines of a message up to its first empty one.
MOST_MESSAGE_LINES = 20
# Characters of an exception's first line if more of its message follows.
LONGEST_FIRST_LINE = 140
# Lines that libraries print as they end: trackers of experiments, and progress bars that were interrupted.
_OF_THE_END = r"\s*$|(?:wandb|swanlab): |(?!.*\b100%).{0,200}\d%\|"
# Lines of a training that continues or is started again; torchrun reports a failed rank before a restart so.
_WENT_ON = (
    r"(?i)(?:\b|_)(?:step|epoch|iter|iteration|batch)s?\b\W{0,4}\d|\bloss\b\W{0,4}\d"
    r"|\b100%\||\bre-?(?:start|try|tries|sum)|\battempt|\btry(?:ing)? again"
    r"|failed \(exitcode: -?\d{1,9}\) local_rank: \d"
)
# Between them, a pool of processes prints the traceback of its worker.
_QUOTES = '"""'
_TELLS_OF_AN_ERROR = (
    r"^\w+(\.\w+)*(Error|Exception|Interrupt)\b|(?i:\b(error|fatal|panic|abort(ed)?)\b ?[:(\]]"
    r"|terminate called|no such file|not found$|permission denied|cannot |no module named)"
)
# Codes of CANN and HCCL; those of its inner errors tell nothing.
CODE = r"\bE(?!Z9999|19999|E9999)[A-Z0-9]\d{4}\b"
# Texts before a numeric code: `error code is 507015`, `ret[107001]`, `failed : 507008`.
BEFORE_A_NUMBER = r"(?i:code|error|err|ret|result|failed|status)\b\W{0,3}(?:(?:is|value)\b\W{0,2})?"
_REASON = r"(?i)\b(?:reason|caused by|root cause)\b ?[:=]"
# Process and time before a line of CANN.
_STAMP = r"^(?:\[[^\]]{1,200}\] ?)?(?:\d{4}-\d\d-\d\d[-\d:.]{1,40} )?"
_FIRST_OF_NOTHING = r"[\w.]{1,200}(?:\([\w.]{1,200}\))?: ?$"
_NO_CONTENT = r"\W*$|-- Process \d"


class FoundFailure(NamedTuple):
    """Failure at the end of an output.

    `words` are one line, `text` is the whole message, `place` is `file:line` or empty, and `shown` has the
    lines of the output for the reader. `is_exception` is False for what native code, a shell or a launcher
    reports.
    """

    words: str
    text: str
    place: str
    shown: tuple[str, ...]
    is_exception: bool = True


# The end of a node asks several times, and a search takes some milliseconds for each process.
@lru_cache(maxsize=64)
def find_failure(output: str, stopped: bool = False, died: bool = False) -> FoundFailure | None:
    """Returns the failure, None if so much output follows that the program has survived it.

    The limit is lower for a process that was `stopped`, as it may have gone on training. One that `died` by a
    fault of its native code is not explained by a traceback.
    """
    lines = output_lines(output)
    blocks = failure_blocks(lines)
    most = MOST_LINES_AFTER_STOPPED if stopped else MOST_LINES_AFTER
    if died:
        blocks = [block for block in blocks if block.source != OWN or not block.is_traceback]
    near = [block for block in blocks if block.words and len(lines) - block.end < most]
    last = next((block for block in reversed(near) if block.weight > HANDLED), near[-1] if near else None)
    if last is None:
        return None
    chosen = explaining(lines, blocks, last)
    if chosen.source == LAUNCHER:
        error = find_error_line(lines[: chosen.start])
        if error is not None:
            return FoundFailure(error, error, chosen.place, tuple(lines[: chosen.start][-TAIL_LINES:]))
    message = message_of(lines, blocks, chosen)
    words = in_one_line(message, chosen.words)
    place = _place_in_worker(lines, blocks, chosen) or chosen.place or last.place
    text = "\n".join(message) if message else chosen.words
    shown = tuple(_shown(lines, blocks, chosen))
    # The report of pytest has no message of its own, but its words are an exception's.
    is_exception = chosen.is_traceback or chosen.at == chosen.end
    return FoundFailure(words, text, place, shown, is_exception)


def explaining(lines: Sequence[str], blocks: Sequence[FailureBlock], last: FailureBlock) -> FailureBlock:
    """Returns the failure that explains the last one.

    A launcher reports a failure above it, however much its ranks have printed since. A shell, and Python as
    it dies by a signal, may follow at once what the process itself has said.
    """
    ordinary = ordinary_lines(lines, blocks)
    chosen = last
    for block in reversed(blocks[: blocks.index(last)]):
        if block.weight != PROOF:
            continue
        is_dead = chosen.source == AFTER_DEATH and block.source != LAUNCHER
        is_next = is_dead and is_short(ordinary[block.end : chosen.start])
        if chosen.source != LAUNCHER and not is_next:
            break
        chosen = block
    return chosen


def ordinary_lines(lines: Sequence[str], blocks: Sequence[FailureBlock]) -> list[str]:
    """Returns the lines with empty ones for those of blocks, and those that libraries print as they end."""
    inside = {number for block in blocks for number in range(block.start, block.end)}
    return [
        "" if number in inside or re.match(_OF_THE_END, line) else line for number, line in enumerate(lines)
    ]


def is_short(lines: Sequence[str]) -> bool:
    """Returns whether lines after a failure are so few that it was the end, and none shows a training."""
    lines = list(filter(None, lines))
    if len(lines) > MOST_ORDINARY_LINES or sum(map(len, lines)) > MOST_ORDINARY_CHARACTERS:
        return False
    return not any(re.search(_WENT_ON, line) for line in lines)


def message_of(lines: Sequence[str], blocks: Sequence[FailureBlock], block: FailureBlock) -> list[str]:
    """Returns the whole message of a failure: of an exception with the lines up to the first empty one.

    It ends where the next failure begins.
    """
    if block.source != OWN:
        return []
    if not block.is_traceback:
        return [*lines[block.at : block.end]]
    lines = lines[: next((other.start for other in blocks if other.start > block.at), None)]
    end = block.at + 1
    if re.match(_FIRST_OF_NOTHING, lines[block.at]):
        while end < len(lines) and not lines[end].strip() and end < block.at + 3:
            end += 1
    while end < len(lines) and lines[end].strip() and end < block.at + MOST_MESSAGE_LINES:
        end += 1
    end = max(block.end, end_of_message(lines, end - 1))
    while not lines[end - 1].strip() and end > block.at + 1:
        end -= 1
    return [*lines[block.at : end]]


def in_one_line(message: Sequence[str], words: str) -> str:
    """Returns the words, and of the message the line that has its code or its reason, if they have not.

    An exception of torch_npu has the call in its first line, the code and the reason below it.
    """
    below = [text for text in (re.sub(_STAMP, "", line.strip()) for line in message[1:]) if text]
    below = [text for text in below if not re.match(_NO_CONTENT, text)]
    named = next((text for text in below if re.search(CODE, text)), None)
    if re.search(CODE, words):
        named = words
    if named is None and (re.match(_FIRST_OF_NOTHING, words) or words.endswith(":")):
        named = next(iter(below), None)
    if named is None and not re.search(_REASON, words):
        named = next((text for text in below if re.search(_REASON, text)), None)
    if named is None or named in words:
        return words
    # A secret that is cut would not be recognized any more.
    masked = without_secrets(words).rstrip()
    first = masked if len(masked) <= LONGEST_FIRST_LINE else f"{masked[:LONGEST_FIRST_LINE]}..."
    return f"{first} {named}"


def find_error_line(lines: Sequence[str]) -> str | None:
    """Returns the last line that looks like an error, among the last 20 after the last exception."""
    blocks = [block for block in failure_blocks(lines) if block.is_traceback]
    rest = [line.strip() for line in lines[blocks[-1].at + 1 if blocks else 0 :][-TAIL_LINES:]]
    return next((line for line in reversed(rest) if re.search(_TELLS_OF_AN_ERROR, line)), None)


def own_words(output: str, stopped: bool = False, died: bool = False) -> str | None:
    """Returns the words of the failure at the end, else the last line that looks like an error."""
    failure = find_failure(output, stopped, died)
    return failure.words if failure is not None else find_error_line(output_lines(output))


def last_words(output: str) -> list[str]:
    """Returns the lines of the failure at the end of an output, or else its last 20 lines."""
    failure = find_failure(output)
    return [*failure.shown] if failure is not None else output_lines(output)[-TAIL_LINES:]


def _place_in_worker(lines: Sequence[str], blocks: Sequence[FailureBlock], chosen: FailureBlock) -> str:
    """Returns the place in the worker of a pool, whose traceback is printed as the cause of the driver's."""
    number = blocks.index(chosen)
    before = blocks[number - 1] if number else None
    is_worker = before is not None and before.start > 0 and lines[before.start - 1] == _QUOTES
    return before.place if before is not None and is_worker and before.words == chosen.words else ""


def _shown(lines: Sequence[str], blocks: Sequence[FailureBlock], chosen: FailureBlock) -> list[str]:
    """Returns the lines of a failure, with the exceptions of which it follows."""
    if not chosen.is_traceback:
        start = chosen.start if chosen.source == OWN else 0
        return [*lines[max(start, chosen.end - TAIL_LINES) : chosen.end]]
    start, above = chosen.start, blocks[: blocks.index(chosen)]
    for block in reversed(above):
        if not any(re.search(CHAINED, line) for line in lines[block.start : start]):
            break
        start = block.start
    shown = [*lines[start : chosen.at], *(message_of(lines, blocks, chosen) or lines[chosen.at : chosen.end])]
    if len(shown) <= MOST_SHOWN_LINES:
        return shown
    return [*shown[:2], "  ...", *shown[3 - MOST_SHOWN_LINES :]]
