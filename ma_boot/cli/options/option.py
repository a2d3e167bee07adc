"""An option of `ma_boot run`: what it requires, its values from elsewhere, completion, advice for slips."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    NamedTuple,
)

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete a file name."""
    return _paths("file", incomplete)


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete a directory name."""
    return _paths("dir", incomplete)


def _paths(kind: str, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # needed for completion only

    return [CompletionItem(incomplete, type=kind)]


FILE: dict[str, Any] = {"metavar": "FILE", "shell_complete": files}
DIR: dict[str, Any] = {"metavar": "DIR", "shell_complete": directories}


_PREFIX = "MABOOT_"
_NO_OPTIONS = {  # what ma_boot sets for processes and for itself
    *("MABOOT_FAILURE_FILE", "MABOOT_RUN", "MABOOT_NNODES", "MABOOT_NODE_RANK", "MABOOT_NPROC"),
    *("MABOOT_WORLD_SIZE", "MABOOT_JOB_TOKEN", "MABOOT_MASTER_ADDR", "MABOOT_MASTER_PORT"),
    "MABOOT_SUBMISSION",
}
_OWN_WORDS = {"--local", "--nodes"}  # other options of one word may well be the training's


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """A line for each variable `MABOOT_...` that no option has; `known` are those of the options."""
    unknown = [name for name in sorted(environ) if name.startswith(_PREFIX)]
    names = [name[len(_PREFIX) :] for name in known if name]
    return [
        f"{name}: no option of ma_boot has this variable, it is ignored"
        f"{did_you_mean(name[len(_PREFIX) :], names, _PREFIX)}"
        for name in unknown
        if name not in known and name not in _NO_OPTIONS
    ]


def misplaced_options(command: Sequence[str], script: int, known: Iterable[str]) -> list[str]:
    """A line if options of ma_boot come after the script, where they belong to the training.

    `script` is the index of its word, `known` are all options.
    """
    own = {option for option in known if "-" in option[2:]} | _OWN_WORDS
    words = [word.partition("=")[0] for word in command[script + 1 :]]
    names = list(dict.fromkeys(name for name in words if name in own))
    if not names:
        return []
    given, after = ", ".join(names), command[script]
    if len(names) == 1:
        note = f"{given} comes after {after}, and so is passed to the training"
    else:
        note = f"{given} come after {after}, and so are passed to the training"
    return [f"{note}; options of ma_boot go before COMMAND"]


def did_you_mean(name: str, names: Collection[str], before: str = "") -> str:
    """The question whether a similar one of these names was meant; empty if none is similar."""
    import difflib  # only for a mistake

    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75 if len(name) > 4 else 0.66)
    return f"; did you mean {before}{near[0]}?" if near else ""


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number{_bounds(self)}", param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a number{_bounds(self)}", param, ctx)


def _bounds(kind: Any) -> str:
    if kind.max is not None:
        return f" from {kind.min} to {kind.max}"
    return f" above {kind.min}" if kind.min_open else f" of at least {kind.min}"


SECONDS: dict[str, Any] = {"type": Number(min=0), "metavar": "SECONDS"}
SECONDS_ABOVE_0: dict[str, Any] = {"type": Number(min=0, min_open=True), "metavar": "SECONDS"}


def age(ctx: click.Context, param: click.Parameter, value: str | None) -> float:
    """`7d` in seconds; infinite without a value."""
    if value is None:
        return math.inf
    match = re.fullmatch(r"(\d{1,6})([smhd])", value)
    if match is None:
        raise click.BadParameter(f"found {value!r}, expected e.g. 7d, 36h, 90m or 300s")
    return int(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[match[2]]


class Requirement(NamedTuple):
    """The value that another option must have, and the message if it does not."""

    option: str
    value: object
    message: str


LOCAL = Requirement("local", True, "only for rehearsals; add --local.")
DOCKER = Requirement("runner", "docker", "only for containers; add --runner docker.")
PROCESS = Requirement("runner", "process", "only with --runner process.")
PLAN = Requirement("plan", True, "only for plans; add --plan.")


class RunOption(click.Option):
    """An option that is allowed only if its requirements are met; the short help shows `common` ones.

    `separator` is the expression between several values in its environment variable.
    """

    def __init__(
        self,
        *names: str,
        requires: tuple[Requirement, ...] = (),
        common: bool = False,
        separator: str = r":(?!//)",
        **settings: Any,
    ) -> None:
        super().__init__(names, **{"show_default": "default" in settings, **settings})
        self.requires = requires
        self.common = common
        self.separator = separator

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty for an option without a long name."""
        long = self.opts[-1]
        return "MABOOT_" + long[2:].replace("-", "_").upper() if long.startswith("--") else ""

    @property
    def value(self) -> str:
        """What is given to it, in a word; 1 for a flag, which has none on the command line."""
        choices = "|".join(self.type.choices) if isinstance(self.type, click.Choice) else ""
        return self.metavar or choices or ("1" if self.is_flag else "WORD")


class RunVariable(RunOption):
    """What only its environment variable sets: too rarely needed for an option of the command line."""

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__(*names, hidden=True, **settings)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Leaves the command line without it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """The variable, its value, and what it is for."""
        default = f"  [default: {self.default}]" if self.show_default and not self.is_flag else ""
        return f"{self.variable}={self.value}", f"{self.help}{default}"


class _OfACommand(RunVariable):
    """As `click.option` makes one."""

    def __init__(self, names: Sequence[str], **settings: Any) -> None:
        super().__init__(*names, **settings)


def by_variable(name: str, **settings: Any) -> Callable[..., Any]:
    """Adds a parameter to a command that only its variable sets: `MABOOT_SOME_NAME` for `--some-name`."""
    return click.option(name, cls=_OfACommand, **settings)


class Topic(NamedTuple):
    """Options that belong together, shown by `ma_boot --help NAME`.

    `about` is a phrase, `examples` are command lines, `more` is a text below the options.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    options: tuple[RunOption, ...]
    more: str = ""


def misfits(ctx: click.Context) -> list[str]:
    """A line for each requirement that is not met, with the options given despite it.

    An option set by its environment variable is listed by the name of the variable, or of the key of the
    job file; the job file itself needs what its options for rehearsals need.
    """
    of_job = bool(ctx.params.get("job"))
    unmet: dict[Requirement, list[str]] = {}
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if isinstance(option, RunOption) and source is not ParameterSource.DEFAULT:
            missing = [needed for needed in option.requires if ctx.params[needed.option] != needed.value]
            by_default = source is ParameterSource.DEFAULT_MAP
            if missing and not (of_job and by_default and missing[0] is LOCAL):
                by_variable = isinstance(option, RunVariable) or (by_default and not of_job)
                name = option.variable if by_variable else option.opts[-1]
                unmet.setdefault(missing[0], []).append(name)
    return [f"{', '.join(names)}: {requirement.message}" for requirement, names in unmet.items()]


class OptionProblem(NamedTuple):
    """What is wrong with an option of a job, by its name without hyphens at the start."""

    option: str
    text: str


class OptionsOfJob(NamedTuple):
    """Values for click's `default_map`, and what is wrong."""

    values: dict[str, Any]
    problems: list[OptionProblem]


def from_environment(command: click.Command, environ: Mapping[str, str]) -> dict[str, Any]:
    """The options that are set by variables `MABOOT_SOME_NAME`."""
    values: dict[str, Any] = {}
    for option in command.params:
        if isinstance(option, RunOption) and option.name and environ.get(option.variable):
            value = environ[option.variable]
            values[option.name] = tuple(re.split(option.separator, value)) if option.multiple else value
    return values


def of_job(command: click.Command, words: Sequence[str]) -> OptionsOfJob:
    """The values of a job's options `--name=value` and flags `--name`.

    A job has no options for rehearsals, containers or plans.
    """
    own = {
        option.opts[-1][2:]: option
        for option in command.params
        if isinstance(option, RunOption)
        and not isinstance(option, RunVariable)
        and option.name not in ("local", "plan")
        and not any(need in (LOCAL, PLAN) or need.option == "runner" for need in option.requires)
        and option.opts[-1].startswith("--")
    }
    values: dict[str, Any] = {}
    problems: list[OptionProblem] = []
    context = click.Context(command)
    for word in words:
        name, given, text = word[2:].partition("=")
        option = own.get(name)
        if option is None or not option.name:
            question = did_you_mean(name, list(own))
            problems.append(OptionProblem(name, f"no such option of a job{question}; see ma_boot --help all"))
        elif option.is_flag != (not given):
            expected = "true or false" if option.is_flag else option.metavar or "a value"
            problems.append(OptionProblem(name, f"expected {expected}"))
        else:
            earlier = values.get(option.name, ())
            values[option.name] = True if option.is_flag else (*earlier, text) if option.multiple else text
            try:
                option.process_value(context, values[option.name])
            except click.BadParameter as error:
                problems.append(OptionProblem(name, error.message))
    return OptionsOfJob(values, problems)
