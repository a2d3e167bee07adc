"""Values of options from elsewhere than the command line: environment variables and the options of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.typos import did_you_mean


class OptionProblem(NamedTuple):
    """A mistake in an option of a job; the option's name has no hyphens at the start."""

    option: str
    text: str


class JobOptionValues(NamedTuple):
    """Values of a job's options by the names of click's parameters, and the mistakes in them."""

    values: dict[str, Any]
    problems: list[OptionProblem]


def read_environment(command: click.Command, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the options of a command that variables `MABOOT_SOME_NAME` set; empty variables set none."""
    values: dict[str, Any] = {}
    for option in declared_options(command):
        declared = option.declared
        text = environ.get(declared.variable)
        if text:
            values[declared.name] = tuple(re.split(declared.separator, text)) if declared.multiple else text
    return values


def read_job_options(command: click.Command, words: Sequence[str]) -> JobOptionValues:
    """Returns the values of a job's options `--name=value` and flags `--name`.

    Options that require something, such as `--local`, are not for a job.
    """
    allowed = {
        option.opts[-1][2:]: option
        for option in declared_options(command)
        if option.opts[-1].startswith("--")
        and option.name != "local"
        and not option.declared.variable_only
        and not option.declared.requires
    }
    values: dict[str, Any] = {}
    problems: list[OptionProblem] = []
    context = click.Context(command)
    for word in words:
        name, given, text = word[2:].partition("=")
        option = allowed.get(name)
        if option is None:
            question = did_you_mean(name, list(allowed))
            problems.append(OptionProblem(name, f"no such option of a job{question}; see ma_boot --help all"))
        elif option.is_flag != (not given):
            expected = "true or false" if option.is_flag else option.metavar or "a value"
            problems.append(OptionProblem(name, f"expected {expected}"))
        else:
            key = option.declared.name
            earlier = values.get(key, ())
            values[key] = True if option.is_flag else (*earlier, text) if option.multiple else text
            try:
                option.process_value(context, values[key])
            except click.BadParameter as error:
                problems.append(OptionProblem(name, error.message))
    return JobOptionValues(values, problems)


def declared_options(command: click.Command) -> list[DeclaredOption]:
    """The options of a command that variables can set, too."""
    return [option for option in command.params if isinstance(option, DeclaredOption)]
