"""Reads a job file from the disk: the only effect of this room."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, List

from ma_boot.errors import ConfigError, listed
from ma_boot.job.job_file import JobFile, JobProblem
from ma_boot.job.read import parse_job
from ma_boot.job.rules import form_problems


def load_job(file: str, more: Callable[[JobFile], List[JobProblem]]) -> JobFile:
    """The job in a file; `more` finds problems that only the caller knows, such as those of options.

    Raises:
        ConfigError: the file cannot be read, or has mistakes: all of them.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"cannot read the job file {file}: {reason}; ma_boot job init writes a first one"
        ) from error
    job, problems = parse_job(text)
    problems += [*form_problems(job), *more(job)]
    if problems:
        found = sorted(set(problems), key=lambda problem: problem.line or 0)
        raise ConfigError(listed(f"{file} is not a valid job file:", list(map(str, found))))
    return job
