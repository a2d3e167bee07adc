"""Numbers on the command line, whose errors are sentences."""

from __future__ import annotations

from typing import Any, Optional

import click


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        """The number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number{_bounds(self)}", param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        """The number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a number{_bounds(self)}", param, ctx)


def _bounds(kind: Any) -> str:
    if kind.max is not None:
        return f" from {kind.min} to {kind.max}"
    return f" above {kind.min}" if kind.min_open else f" of at least {kind.min}"
