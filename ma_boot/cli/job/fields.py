"""The job that a file and the command line describe."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import click

from ma_boot.cli.options import RunOption, of_job
from ma_boot.job import JobFile, JobProblem, overridden, read_job_file, with_settings
from ma_boot.redact import remember_secrets

SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of the job file, e.g. nodes=4, environment.SIZE=8 or exclude=data/; may be repeated.",
)


def described_job(
    ctx: click.Context, words: Sequence[str], changes: Sequence[str]
) -> Tuple[JobFile, List[JobProblem]]:
    """The job that a command line describes, and all mistakes in it and in its file but those of the form.

    `words` are `[FILE] [OPTIONS of ma_boot] COMMAND`, `changes` the values of `--set`.

    Raises:
        ConfigError: the job file cannot be read.
    """
    run = run_of(ctx)
    is_file = bool(words) and words[0].endswith((".yaml", ".yml"))
    job, problems = read_job_file(words[0]) if is_file else (JobFile(), [])
    job = with_settings(job, changes, problems)
    problems += [job.problem(f"options: {one.option}", one.text) for one in of_job(run, job.options).problems]
    options, command = split_words(run, words[1:] if is_file else words)
    problems += [JobProblem(None, f"--{one.option}", one.text) for one in of_job(run, options).problems]
    given = {name: value for name, value in (("options", options), ("command", command)) if value}
    job = overridden(job, given)
    remember_secrets({**ctx.obj, **job.environment}, job.secrets)
    return job, problems


def run_of(ctx: click.Context) -> click.Command:
    """The command `run`, whose options are those of a job."""
    root = ctx.find_root().command
    return root.commands["run"] if isinstance(root, click.Group) else root


def split_words(run: click.Command, words: Sequence[str]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Splits `[OPTIONS] COMMAND`, as after `ma_boot`, into options `--name=value` and the command.

    Raises `click.UsageError` for an option that ma_boot does not have.
    """
    values, command, order = run.make_parser(click.Context(run, **run.context_settings)).parse_args(
        list(words)
    )
    options: List[str] = []
    module = False
    for param in dict.fromkeys(order):
        if not isinstance(param, RunOption) or param.name is None:
            continue
        name, value = param.opts[-1], values[param.name]
        if not name.startswith("--"):
            module = True
        elif param.is_flag:
            options.append(name)
        else:
            options += [f"{name}={text}" for text in (value if param.multiple else [value])]
    rest = command or values.get("command")
    rest = rest if isinstance(rest, (list, tuple)) else ()  # click's own mark for a missing value
    return tuple(options), ("-m", *rest) if module else tuple(rest)
