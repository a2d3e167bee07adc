"""Progress of a training (step, loss, seconds per step) in the output of its processes. Pure.

Three kinds of patterns are tried: lines of known frameworks (`KNOWN`, with their sources), any other line
with a loss (`_PLAIN`), and the user's (`--metric`), which replace the known ones of their name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple, Optional

STEP_TIME = "step_time"
# Words in the expressions below; their repetitions are bounded, so a search takes little time in any output.
_WORDS = (
    (b"NUMBER", rb"([-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?|[-+]?(?i:nan|inf))"),
    (b"COUNT", rb"\d{1,20}"),
    (b"PAD", rb" {0,40}"),
    (b"CLOCK", rb"[\d:?]{1,20}"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


class Pattern(NamedTuple):
    """An expression with the names of its groups; every line that it matches contains `marker`.

    `unit` is that of the group `step_time`: `s`, `ms` or `per s`. A pattern with `beside` is used only in an
    output that has contained these bytes.
    """

    names: tuple[str, ...]
    marker: bytes
    expression: bytes
    unit: str = "s"
    beside: bytes = b""

    def seconds(self, value: float) -> float:
        """Converts a `step_time` to seconds; 0 at 0 steps per second."""
        if self.unit == "ms":
            return value / 1000
        if self.unit == "per s":
            return 1 / value if value else 0.0
        return value


def _known(names: str, marker: bytes, expression: bytes, unit: str = "s", beside: bytes = b"") -> Pattern:
    for word, meaning in _WORDS:
        expression = expression.replace(word, meaning)
    return Pattern(tuple(names.split()), marker, expression, unit, beside)


_HF_LOSS = b"{'loss': "
KNOWN = (
    # MindSpore, mindspore/train/callback/_loss_monitor.py: "epoch: %s step: %s, loss is %s"
    _known("epoch step loss", b", loss is ", rb"epoch: (COUNT),? step: (COUNT), loss is NUMBER"),
    # MindSpore, mindspore/train/callback/_time_monitor.py:
    # "{} epoch time: {:5.3f} ms, per step time: {:5.3f} ms"
    _known(STEP_TIME, b"per step time: ", rb"per step time: PADNUMBER ms", "ms"),
    # MindFormers, mindformers/core/callback/callback.py: "{ Epoch:[%3d/%3d], step:[%5d/%5d], " and
    # "loss: %5.3f, " with data sinking, else "loss:[%5.3f/%5.3f], "; then "per_step_time: %dms, "
    _known(
        "epoch step loss",
        b"], step:[",
        rb"Epoch:\[PAD(COUNT)/PADCOUNT\], step:\[PAD(COUNT)/PADCOUNT\], loss: ?\[?PADNUMBER",
    ),
    _known(STEP_TIME, b"per_step_time: ", rb"per_step_time:PADNUMBER ?ms", "ms"),
    # Megatron-LM, megatron/training/training.py, training_log: " iteration {:8d}/{:8d} |",
    # " elapsed time per iteration (ms): {:.1f} |", " {}: {:.6E} |" with the key "lm loss"
    _known(
        "step",
        b"iteration ",
        rb"(?:^|\] |\s)iteration PAD(COUNT)/PADCOUNT \| (?:consumed samples|elapsed time)",
    ),
    _known(STEP_TIME, b"elapsed time per iteration", rb"elapsed time per iteration \(ms\): NUMBER", "ms"),
    # GPT-NeoX prints lm_loss, Megatron-LM lm loss.
    _known("loss", b"loss: ", rb"\| lm[ _]loss: NUMBER"),
    # DeepSpeed, deepspeed/runtime/engine.py: "step={step}, skipped={skipped}, lr={lr}, mom={mom}"
    _known("step", b", skipped=", rb"\] step=(COUNT), skipped="),
    # Hugging Face transformers, trainer_callback.py: ProgressCallback prints the dictionary of logs, whose
    # numbers are strings since release 5; its bar is tqdm's:
    # "{n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}"
    _known("loss", _HF_LOSS, rb"\{'loss': '?NUMBER"),
    _known(
        "step total step_time", b"s/it", rb"\| (COUNT)/(COUNT) \[CLOCK<CLOCK, PADNUMBERs/it", "s", _HF_LOSS
    ),
    _known(
        "step total step_time",
        b"it/s",
        rb"\| (COUNT)/(COUNT) \[CLOCK<CLOCK, PADNUMBERit/s",
        "per s",
        _HF_LOSS,
    ),
)
_LOSS_OR_BAR = rb"\{'loss': |\| \d{1,20}/(\d{1,20}) \["
# Values in a line with a loss, or in a line of JSON, in the forms of MMEngine, torchtitan, Lightning, tqdm,
# PyTorch's examples and others. Lines of an evaluation are skipped.
_PLAIN = (
    # loss: 0.66, train_loss=0.66, "loss": 0.66, loss is 0.66; not aux/loss or my-loss.
    _known(
        "loss", b"", rb"(?i)(?<![\w/.-])(?:train(?:ing)?[_/ ])?loss(?:[\"']?[ :=\t]{1,4}| is )PADNUMBER\b"
    ),
    # Epoch 3, epoch=3, "epoch": 3, Epoch [3], Epoch(train) [3].
    _known("epoch", b"", rb"(?i)\bepoch(?:\(train\))?[ :=\"'\[]{1,8}(COUNT)\b"),
    # step 3, global_step: 3, iteration [3].
    _known(
        "step", b"", rb"(?i)\b(?:global_?|train_?)?(?:step|iter|iteration)s?[\"']?[ :=\[]{1,4}PAD(COUNT)\b"
    ),
    # [20/300], as in PyTorch's examples.
    _known("step", b"", rb"\[PAD(COUNT)/PADCOUNT[\] ]"),
    # | 30/300 [00:05<00:45, 6.00it/s], a bar of tqdm.
    _known("step step_time", b"", rb"[|%]PAD(COUNT)/COUNT \[CLOCK<CLOCK, PADNUMBERs/it"),
    _known("step step_time", b"", rb"[|%]PAD(COUNT)/COUNT \[CLOCK<CLOCK, PADNUMBERit/s", "per s"),
    # time: 0.7842, iter time (s): 0.5, in seconds.
    _known(STEP_TIME, b"", rb"\b(?:iter )?time(?: \(s\))?: NUMBER"),
)
# A word for an evaluation in a line, such as `Epoch(val)`, `eval 3` and `test:`.
_EVALUATION = rb"(?i)(?:^|[\s(\[])(?:eval\w{0,10}|val|valid\w{0,10}|test\w{0,10})(?:[\s:)\]]|$)"
# Escape sequence of a terminal for colours, as torchtitan prints.
_COLOUR = rb"\x1b\[[\d;]{0,20}m"


def parse_pattern(text: str) -> Pattern:
    """Parses a user's pattern `NAME=REGEX`: the first group has the value, or the match if there is no group.

    `step`, `loss` and `step_time` (seconds; `step_time_ms`: milliseconds) replace the known patterns.

    Raises:
        ValueError: the text is no pattern; the message says why.
    """
    name, equals, expression = text.partition("=")
    if not equals or not _NAME.match(name) or not expression:
        raise ValueError(
            "expected NAME=REGEX, with a name of letters, digits and _, such as 'loss=loss: ([0-9.]+)'"
        )
    # Takes 15 ms, and most jobs have no pattern.
    import regex

    try:
        regex.compile(expression.encode())
    except (regex.error, RecursionError) as error:
        raise ValueError(f"{expression!r} is no regular expression: {error}") from error
    if name == STEP_TIME + "_ms":
        return Pattern((STEP_TIME,), b"", expression.encode(), "ms")
    return Pattern((name,), b"", expression.encode())


# Larger numbers are no step, and no seconds per step.
MOST_STEPS, LONGEST_STEP = 1e15, 1e9
# The user's patterns are searched for in the last lines of an output, and in the first bytes of each.
LINES = 200
LINE_BYTES = 1000
_LINE_ENDS = (b"\n", b"\r")

Search = Callable[[Pattern, Sequence[bytes]], Optional[float]]


class Reading(NamedTuple):
    """Last values in the output of a period; None for those that were not printed; `step_time` in seconds."""

    step: int | None = None
    step_time: float | None = None
    loss: float | None = None
    values: Mapping[str, float] = {}

    def updated_by(self, new: Reading) -> Reading:
        """Returns this reading with all values of the new one."""
        return Reading(
            self.step if new.step is None else new.step,
            self.step_time if new.step_time is None else new.step_time,
            self.loss if new.loss is None else new.loss,
            {**self.values, **new.values},
        )


class TrainingProgress:
    """Reads the output of one process, piece by piece.

    If no step time is printed, it is the time between the last outputs of two pieces, divided by the steps in
    between. `search` returns the last value of one of the user's patterns in lines.
    """

    def __init__(self, own: Sequence[Pattern] = (), search: Search = lambda pattern, lines: None) -> None:
        # Offset of the first byte that was not read yet.
        self.position = 0
        self._own = own
        self._search = search
        self._replaced = {name for pattern in own for name in pattern.names}
        self._seen: set[bytes] = set()
        # Names that a known framework has printed: other lines are not searched for them.
        self._read: set[str] = set()
        # Steps in all, by the progress bar of transformers' training.
        self._total: float | None = None
        self._bar_follows = False
        # Epoch and step of the last line.
        self._last = (0, 0)
        self._counted_at: float | None = None

    def read(self, received: int, text: bytes, at: float) -> Reading:
        """Reads `text`, the last of `received` bytes, which were printed at `at` (monotonic seconds).

        An incomplete line is left to the next piece.
        """
        if len(text) < received - self.position:
            # Output before the text is lost, so the text begins within a line.
            text = text[_first_line(text) :]
        whole = text[: _last_end(text)] or (text if len(text) > LINE_BYTES else b"")
        self.position = received - (len(text) - len(whole))
        values, steps = self._known(whole)
        plain, more = self._plain(whole)
        values, steps = {**plain, **values}, steps + more
        values = {name: value for name, value in values.items() if name not in self._replaced}
        values.update(self._given(whole))
        if steps and STEP_TIME not in values and self._counted_at is not None:
            values[STEP_TIME] = (at - self._counted_at) / steps
        if steps:
            self._counted_at = at
        step, took = values.pop("step", math.nan), values.pop(STEP_TIME, math.nan)
        return Reading(
            int(step) if abs(step) < MOST_STEPS else None,
            took if 0 <= took < LONGEST_STEP else None,
            values.pop("loss", None),
            values,
        )

    def _known(self, text: bytes) -> tuple[dict[str, float], int]:
        """Returns the last values of known frameworks, and the number of steps that were made."""
        latest: dict[str, float] = {}
        times: list[float] = []
        steps = 0
        self._find_bar(text)
        for pattern in KNOWN:
            if pattern.marker not in text:
                continue
            self._seen.add(pattern.marker)
            if pattern.beside and pattern.beside not in self._seen:
                continue
            for match in re.finditer(pattern.expression, text):
                values = _values(pattern, match)
                if values.pop("total", self._total) != self._total:
                    continue
                self._read.update(values)
                if "step" in values:
                    steps += self._advance(int(values.pop("epoch", 0)), int(values["step"]))
                if STEP_TIME in values:
                    times.append(values[STEP_TIME])
                latest.update(values)
        if times:
            latest[STEP_TIME] = sum(times) / len(times)
        return latest, steps

    def _find_bar(self, text: bytes) -> None:
        """Finds the bar of the training by the loss before it: an evaluation has a bar of its own."""
        if _HF_LOSS in text or self._bar_follows:
            for match in re.finditer(_LOSS_OR_BAR, text):
                if self._bar_follows and match.group(1):
                    self._total = float(match.group(1))
                self._bar_follows = match.group(1) is None

    def _plain(self, text: bytes) -> tuple[dict[str, float], int]:
        """Returns the same for any line with a loss, without the names that a framework prints."""
        plain: dict[str, float] = {}
        steps = 0
        if {"step", "loss"} <= self._read or b"loss" not in text.lower():
            return plain, steps
        for line in re.sub(_COLOUR, b"", text).replace(b"\r", b"\n").split(b"\n"):
            values: dict[str, float] = {}
            for pattern in _PLAIN:
                match = re.search(pattern.expression, line[:LINE_BYTES])
                if pattern is _PLAIN[0] and (match is None or re.search(_EVALUATION, line[:LINE_BYTES])):
                    break
                if match is not None:
                    values = {**_values(pattern, match), **values}
            if "step" in values and "step" not in self._read:
                steps += self._advance(int(values.get("epoch", 0)), int(values["step"]))
            plain.update((name, value) for name, value in values.items() if name not in self._read)
        plain.pop("epoch", None)
        return plain, steps

    def _advance(self, epoch: int, step: int) -> int:
        """Returns the steps since the last line; in a new epoch they are counted from its beginning."""
        before, self._last = self._last, (epoch, step)
        if epoch == before[0]:
            return max(0, step - before[1])
        return step if epoch > before[0] else 0

    def _given(self, text: bytes) -> dict[str, float]:
        """Returns the last value of each of the user's patterns."""
        if not self._own:
            return {}
        lines = text.replace(b"\r", b"\n").rsplit(b"\n", LINES + 1)[-LINES - 1 :]
        given: dict[str, float] = {}
        for pattern in self._own:
            value = self._search(pattern, [line[:LINE_BYTES] for line in lines])
            if value is not None:
                given[pattern.names[0]] = pattern.seconds(value)
        return given


def last_step(output: str) -> int | None:
    """Returns the last step of a training in the end of an output; None if there is none in a known form."""
    text = output.encode() + b"\n"
    return TrainingProgress().read(len(text), text, 0.0).step


def _values(pattern: Pattern, match: re.Match[bytes]) -> dict[str, float]:
    """Returns the numbers in the groups of a match, by name."""
    values = {name: float(text) for name, text in zip(pattern.names, match.groups())}
    if STEP_TIME in values:
        values[STEP_TIME] = pattern.seconds(values[STEP_TIME])
    return values


def _first_line(text: bytes) -> int:
    """Returns the offset of the first complete line."""
    ends = [at for at in map(text.find, _LINE_ENDS) if at >= 0]
    return min(ends) + 1 if ends else len(text)


def _last_end(text: bytes) -> int:
    """Returns the end of the last complete line."""
    return max(map(text.rfind, _LINE_ENDS)) + 1
