"""Reads a job file from the disk: the only effect of this package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Callable

from ma_boot.desk.job.job_file import JobFile, parse_job
from ma_boot.desk.job.readers import JobProblem
from ma_boot.desk.job.rules import form_problems
from ma_boot.errors import ConfigError, listed


def read_job_file(file: str) -> tuple[JobFile, list[JobProblem]]:
    """Reads a job file; returns the job and its mistakes, without the rules of the job form.

    Raises `ConfigError` if the file cannot be read.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"cannot read the job file {file}: {reason}; ma_boot job init writes a first one"
        ) from error
    job, problems = parse_job(text)
    if any(not problem.key for problem in problems):  # of the syntax: nothing else is known
        raise ConfigError(listed(f"{file} is not a valid job file:", in_order(problems)))
    return job, problems


def load_job(file: str, more: Callable[[JobFile], list[JobProblem]]) -> JobFile:
    """Reads and checks a job file; `more` finds problems that only the caller knows, such as of options.

    Raises `ConfigError` if the file cannot be read, or with all its mistakes.
    """
    job, problems = read_job_file(file)
    problems += [*form_problems(job), *more(job)]
    if problems:
        raise ConfigError(listed(f"{file} is not a valid job file:", in_order(problems)))
    return job


def in_order(problems: Iterable[JobProblem]) -> list[str]:
    """Formats the problems, each once: first those of the command line, then those of the file by line."""
    by_line = sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0)
    return [str(problem) for problem in by_line]
