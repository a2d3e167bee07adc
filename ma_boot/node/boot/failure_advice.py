"""Advice on a failure by the facts of the run: where a missing file is, and which python lacks a module."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ma_boot.report.explain import missing_files, output_of_failed_rank
from ma_boot.report.failure import find_failure
from ma_boot.report.result import RunResult
from ma_boot.wording import Message

# Missing files for which advice is given.
MOST_FILES_NAMED = 3
_MISSING_MODULE = (
    r"ModuleNotFoundError: No module named '([^']{1,200})'|.{0,200}: No module named (\S{1,200})$"
)


class FailurePlace(NamedTuple):
    """Directory of the job's code or None, working directory, and the training's python with its origin."""

    code: str | None
    cwd: str
    python: str


def failure_advice(run: RunResult, place: FailurePlace) -> tuple[str, ...]:
    """Returns advice on the first process to fail."""
    failure = run.first_failure
    if failure is None:
        return ()
    output = output_of_failed_rank(failure.output)
    return (*_on_files(output, place), *_on_modules(output, place))


def _on_files(output: str, place: FailurePlace) -> tuple[str, ...]:
    """Returns advice if a process did not find a file that is beside its script."""
    code, cwd = place.code, place.cwd
    if code is None or os.path.realpath(code) == os.path.realpath(cwd):
        return ()
    named = missing_files(output)
    names = (os.path.relpath(name, cwd) if name.startswith(cwd + os.sep) else name for name in named)
    beside = [name for name in names if not os.path.isabs(name) and os.path.exists(os.path.join(code, name))]
    return tuple(
        Message.of(
            "{} is beside the script in {}, but was looked for in the working directory {}: add --workdir "
            "code, or open it by the path of the script (__file__)",
            name,
            code,
            cwd,
        )
        for name in beside[:MOST_FILES_NAMED]
    )


def _on_modules(output: str, place: FailurePlace) -> tuple[str, ...]:
    """Returns advice if the failure is a missing module: in the wrong python it is missing for ever."""
    failure = find_failure(output)
    match = re.match(_MISSING_MODULE, failure.words) if failure is not None else None
    if match is None:
        return ()
    text = (
        "module {} is missing in {}: install it there (--requirements FILE), or select another python by "
        "--conda-env NAME or --python PATH"
    )
    return (Message.of(text, match[1] or match[2], place.python),)
