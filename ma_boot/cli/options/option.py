"""An option of `ma_boot run`: click's, with the options that it requires."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import click
from click.core import ParameterSource

SECONDS: Dict[str, Any] = {"type": click.FloatRange(min=0), "metavar": "SECONDS"}
SECONDS_ABOVE_0: Dict[str, Any] = {"type": click.FloatRange(min=0, min_open=True), "metavar": "SECONDS"}


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
    """An option that is allowed only if its requirements are met; the short help shows `common` ones."""

    def __init__(
        self, *names: str, requires: Tuple[Requirement, ...] = (), common: bool = False, **settings: Any
    ) -> None:
        super().__init__(names, **{"show_default": "default" in settings, **settings})
        self.requires = requires
        self.common = common

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty for an option without a long name."""
        long = self.opts[-1]
        return "MABOOT_" + long[2:].replace("-", "_").upper() if long.startswith("--") else ""


class Topic(NamedTuple):
    """Options that belong together, shown by `ma_boot --help NAME`.

    `about` is a phrase, `examples` are command lines, `more` is a text below the options.
    """

    name: str
    about: str
    examples: Tuple[str, ...]
    options: Tuple[RunOption, ...]
    more: str = ""


def misfits(ctx: click.Context) -> List[str]:
    """A line for each requirement that is not met, with the options given despite it.

    An option set by its environment variable is listed by the name of the variable.
    """
    unmet: Dict[Requirement, List[str]] = {}
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if isinstance(option, RunOption) and source is not ParameterSource.DEFAULT:
            missing = [one for one in option.requires if ctx.params[one.option] != one.value]
            if missing:
                name = option.variable if source is ParameterSource.DEFAULT_MAP else option.opts[-1]
                unmet.setdefault(missing[0], []).append(name)
    return [f"{', '.join(names)}: {requirement.message}" for requirement, names in unmet.items()]
