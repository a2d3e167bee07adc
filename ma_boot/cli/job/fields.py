"""The keys of a job as options of the command line, and the job that file and options describe."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import click

from ma_boot.cli.options import DIR, RunOption, of_job
from ma_boot.job import JobFile, JobProblem, overridden, read_job_file, read_text
from ma_boot.redact import remember_secrets

_OPTIONS = (  # option, key of the file, metavar, help
    ("--name", "name", "NAME", "Name of the job."),
    ("--description", "description", "TEXT", "Description of the job."),
    ("--image", "image", "IMAGE", "ORGANIZATION/NAME:TAG in SWR."),
    ("--nodes", "nodes", "N", "Number of nodes."),
    ("--devices-per-node", "devices-per-node", "N", "Cards per node."),
    ("--pool", "pool", "ID", "Dedicated pool."),
    ("--flavor", "flavor", "ID", "Flavor, of the public pool or a dedicated one."),
    ("--code-dir", "code-dir", "DIR", "Code directory; default: that of COMMAND."),
    ("--code-url", "code-url", "OBS", "Where the code is uploaded to."),
    ("--exclude", "exclude", "PATTERN", "Parts of the code not to upload."),
    ("--input", "inputs", "NAME=OBS", "An input; NAME@env=OBS: its path is in a variable."),
    ("--output", "outputs", "NAME=OBS", "An output."),
    ("--parameter", "parameters", "NAME=VALUE", "A hyper-parameter."),
    ("--env", "environment", "NAME=VALUE", "An environment variable."),
    ("--secret", "secrets", "NAME", "A variable of this shell that the job gets."),
    ("--log-url", "log-url", "OBS", "Where the job's logs go."),
    ("--retries", "retries", "N", "Restarts by the platform."),
    ("--time-limit", "time-limit", "TIME", "Stop the job after this, e.g. 24h."),
    ("--workspace", "workspace", "ID", "Workspace of ModelArts."),
)
_MULTIPLE = {"exclude", "inputs", "outputs", "parameters", "environment", "secrets"}


def of_a_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options, each as the parameter `key_<field>`."""
    for option, key, metavar, text in reversed(_OPTIONS):
        name = "key_" + key.replace("-", "_")
        value: Dict[str, Any] = DIR if metavar == "DIR" else {"metavar": metavar}
        add = click.option(option, name, **value, multiple=key in _MULTIPLE, help=text)
        function = add(function)
    return function


def described_job(ctx: click.Context, words: Sequence[str]) -> Tuple[JobFile, List[JobProblem]]:
    """The job that a command line describes, and all mistakes in it and in its file but those of the form.

    `words` are `[FILE] [OPTIONS of ma_boot] COMMAND`.

    Raises:
        ConfigError: the job file cannot be read.
    """
    run = run_of(ctx)
    is_file = bool(words) and words[0].endswith((".yaml", ".yml"))
    job, problems = read_job_file(words[0]) if is_file else (JobFile(), [])
    problems += [job.problem(f"options: {one.option}", one.text) for one in of_job(run, job.options).problems]
    given: Dict[str, Any] = {}
    for option, key, _, _ in _OPTIONS:
        name = key.replace("-", "_")
        for text in _texts(ctx.params["key_" + name]):
            value = read_text(key, option, text, problems)
            given[name] = _added(given.get(name), value)
    options, command = split_words(run, words[1:] if is_file else words)
    more = {name: value for name, value in (("options", options), ("command", command)) if value}
    changed = overridden(job, {**given, **more})
    problems += [JobProblem(None, f"--{found.option}", found.text) for found in of_job(run, options).problems]
    remember_secrets({**ctx.obj, **changed.environment}, changed.secrets)
    return changed, problems


def run_of(ctx: click.Context) -> click.Command:
    """The command `run`, whose options are those of a job."""
    root = ctx.find_root().command
    return root.commands["run"] if isinstance(root, click.Group) else root


def _texts(value: Any) -> Tuple[str, ...]:
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _added(before: Any, value: Any) -> Any:
    """Several values of one option together."""
    if not before or not isinstance(value, (tuple, dict)):
        return value
    return {**before, **value} if isinstance(value, dict) else (*before, *value)


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
            options += [f"{name}={text}" for text in _texts(tuple(value) if param.multiple else value)]
    rest = command or values.get("command")
    rest = rest if isinstance(rest, (list, tuple)) else ()  # click's own mark for a missing value
    return tuple(options), ("-m", *rest) if module else tuple(rest)
