"""Types of values and completion for click, with messages that name the expected bounds."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offers file names, which the shell completes itself."""
    return path_completion("file", incomplete)


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offers directory names, which the shell completes itself."""
    return path_completion("dir", incomplete)


def path_completion(kind: str, incomplete: str) -> list[CompletionItem]:
    """The item by which the shell completes a path itself; `kind` is `file` or `dir`."""
    from click.shell_completion import CompletionItem  # needed for completion only

    return [CompletionItem(incomplete, type=kind)]


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


FILE: dict[str, Any] = {"metavar": "FILE", "shell_complete": files}
DIR: dict[str, Any] = {"metavar": "DIR", "shell_complete": directories}
SECONDS: dict[str, Any] = {"type": Number(min=0), "metavar": "SECONDS"}


def parse_age(ctx: click.Context, param: click.Parameter, value: str | None) -> float:
    """Parses an age such as `7d` into seconds; infinite without a value."""
    if value is None:
        return math.inf
    match = re.fullmatch(r"(\d{1,6})([smhd])", value)
    if match is None:
        raise click.BadParameter(f"found {value!r}, expected e.g. 7d, 36h, 90m or 300s")
    return int(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[match[2]]
