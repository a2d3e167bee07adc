"""An option of `ma_boot run`: click's, and beside it what it needs and whether people need it every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Tuple

import click
from click.core import ParameterSource

SECONDS: Dict[str, Any] = {"type": click.FloatRange(min=0), "metavar": "SECONDS"}
SECONDS_ABOVE_0: Dict[str, Any] = {"type": click.FloatRange(min=0, min_open=True), "metavar": "SECONDS"}


class Need(NamedTuple):
    """The value that another option must have, and what is said of options that are given without it."""

    option: str
    value: object
    said: str


LOCAL = Need("local", True, "only a rehearsal has this; give --local too.")
DOCKER = Need("runner", "docker", "only containers have this; give --runner docker too.")
PROCESS = Need("runner", "process", "only --runner process has this.")
PROCESS_PLAN = Need("runner", "process", "only --runner process prints a plan.")
PLAN = Need("plan", True, "only a plan is printed as JSON; give --plan too.")


class RunOption(click.Option):
    """An option that has a meaning where its `needs` are met.

    `everyday` are its words on the short page of the help, empty for one that is not there.
    """

    def __init__(
        self, *names: str, needs: Tuple[Need, ...] = (), everyday: str = "", **settings: Any
    ) -> None:
        super().__init__(names, **{"show_default": "default" in settings, **settings})
        self.needs = needs
        self.everyday = everyday

    @property
    def variable(self) -> str:
        """The environment variable that gives it too; empty for one without a long name."""
        long = self.opts[-1]
        return "MABOOT_" + long[2:].replace("-", "_").upper() if long.startswith("--") else ""


@dataclass(frozen=True)
class Topic:
    """Options that belong together: a page of the help, which is `ma_boot --help NAME`.

    `about` is half a sentence, `examples` are command lines, `more` is a text below the options.
    """

    name: str
    about: str
    examples: Tuple[str, ...]
    options: Tuple[RunOption, ...]
    more: str = ""


def misfits(ctx: click.Context) -> List[str]:
    """The options that were given without what they need: a line for each need that is not met.

    One that a variable gave is called by the variable.
    """
    unmet: Dict[Need, List[str]] = {}
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if isinstance(option, RunOption) and source is not ParameterSource.DEFAULT:
            missing = [need for need in option.needs if ctx.params[need.option] != need.value]
            if missing:
                name = option.variable if source is ParameterSource.DEFAULT_MAP else option.opts[-1]
                unmet.setdefault(missing[0], []).append(name)
    return [f"{', '.join(names)}: {need.said}" for need, names in unmet.items()]
