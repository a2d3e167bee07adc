"""What trainings print of their progress: lines of known frameworks, and patterns that the user gives."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

STEP_TIME = "step_time"
# Words of the expressions below, with bounded repetitions: they take little time on whatever a rank prints.
_WORDS = (
    (b"NUMBER", rb"([-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?|[-+]?(?:nan|inf))"),
    (b"COUNT", rb"\d{1,20}"),
    (b"PAD", rb" {0,40}"),
    (b"CLOCK", rb"[\d:?]{1,20}"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


class Pattern(NamedTuple):
    """An expression whose groups have these names; every line that it matches contains `marker`.

    `unit` is that of the group `step_time`: `s`, `ms` or `per s`. A pattern with `beside` counts only in an
    output that has contained these bytes.
    """

    names: Tuple[str, ...]
    marker: bytes
    expression: re.Pattern[bytes]
    unit: str = "s"
    beside: bytes = b""

    def seconds(self, value: float) -> float:
        """A `step_time` in seconds; 0 for what is none."""
        if self.unit == "ms":
            return value / 1000
        if self.unit == "per s":
            return 1 / value if value else 0.0
        return value


def _known(names: str, marker: bytes, expression: bytes, unit: str = "s", beside: bytes = b"") -> Pattern:
    for word, meaning in _WORDS:
        expression = expression.replace(word, meaning)
    return Pattern(tuple(names.split()), marker, re.compile(expression), unit, beside)


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
    _known("step", b"iteration ", rb"(?:^|\] |\s)iteration PAD(COUNT)/PADCOUNT \|"),
    _known(STEP_TIME, b"elapsed time per iteration", rb"elapsed time per iteration \(ms\): NUMBER", "ms"),
    _known("loss", b"lm loss: ", rb"\| lm loss: NUMBER"),
    # Hugging Face transformers, trainer_callback.py: ProgressCallback prints the dictionary of logs, whose
    # numbers are strings since release 5; its bar is tqdm's:
    # "{n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}"
    _known("loss", _HF_LOSS, rb"\{'loss': '?NUMBER"),
    _known(
        "step step_time",
        b"s/it",
        rb"\| (COUNT)/COUNT \[CLOCK<CLOCK, PADNUMBERs/it",
        "s",
        _HF_LOSS,
    ),
    _known(
        "step step_time",
        b"it/s",
        rb"\| (COUNT)/COUNT \[CLOCK<CLOCK, PADNUMBERit/s",
        "per s",
        _HF_LOSS,
    ),
)


def given(text: str) -> Pattern:
    """The pattern `NAME=REGEX`: the first group has the value, or the whole match if there is none.

    `step`, `loss` and `step_time` (seconds; `step_time_ms`: milliseconds) replace what is known of them.

    Raises:
        ValueError: what is wrong with it.
    """
    name, found, expression = text.partition("=")
    if not found or not _NAME.match(name) or not expression:
        raise ValueError(
            "expected NAME=REGEX, with a name of letters, digits and _, such as 'loss=loss: ([0-9.]+)'"
        )
    try:
        compiled = re.compile(expression.encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{expression!r} is no regular expression: {error}") from error
    if name == STEP_TIME + "_ms":
        return Pattern((STEP_TIME,), b"", compiled, "ms")
    return Pattern((name,), b"", compiled)
