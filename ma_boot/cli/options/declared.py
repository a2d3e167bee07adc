"""Options for click, each made from its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable

import click

from ma_boot.cli.options.click_types import Number, Whole, path_completion
from ma_boot.node.option import Option, ValueKind, options_in

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class DeclaredOption(click.Option):
    """An option as `declared`; click leaves a `variable_only` one out of the command line and of its help."""

    def __init__(self, param_decls: Sequence[str] = (), *, declared: Option) -> None:
        self.declared = declared
        default = declared.default_text
        kind = declared.kind
        super().__init__(
            (*declared.words, declared.name),
            help=declared.help,
            type=None if declared.is_flag else _click_type(kind),
            metavar=kind.metavar or None,
            is_flag=declared.is_flag,
            multiple=declared.multiple,
            default=False if declared.is_flag else default,
            show_default=default is not None,
            hidden=declared.variable_only,
            callback=self._parse if kind.parse else None,
        )

    @property
    def value(self) -> str:
        """Placeholder of its value; 1 for a flag, which takes no value on the command line."""
        kind, is_flag = self.declared.kind, self.declared.is_flag
        return kind.metavar or "|".join(kind.choices) or ("1" if is_flag else "WORD")

    def _parse(self, ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        """The value that its kind makes of a text; raises `click.BadParameter`."""
        parse = self.declared.kind.parse
        if value is None or parse is None:
            return self.declared.default
        try:
            return tuple(map(parse, value)) if self.multiple else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes paths, kinds of faults, and the choices that click knows."""
        completes = self.declared.kind.completes
        if not completes:
            return super().shell_complete(ctx, incomplete)
        if completes != "fault":
            return path_completion(completes, incomplete)
        from click.shell_completion import CompletionItem  # needed for completion only

        from ma_boot.desk.rehearsal.faults import KINDS

        return [CompletionItem(word) for word in KINDS if word.startswith(incomplete)]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Adds it to the command line unless only its variable sets it."""
        if not self.declared.variable_only:
            super().add_to_parser(parser, ctx)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option or the variable, its value, and its purpose."""
        declared = self.declared
        if not declared.variable_only:
            return super().get_help_record(ctx)
        default = f"  [default: {declared.default_text}]" if declared.default_text is not None else ""
        return f"{declared.variable}={self.value}", f"{declared.help}{default}"


def _click_type(kind: ValueKind) -> click.ParamType[Any]:
    if kind.choices:
        return click.Choice(kind.choices)
    if kind.bounds is None:
        return click.STRING
    least, most, is_open, is_whole = kind.bounds
    if is_whole:
        return Whole(int(least), None if most is None else int(most))
    return Number(least, most, min_open=is_open)


def add_option(declared: Option) -> Callable[..., Any]:
    """A decorator that adds a declared option to a command."""
    return click.option(cls=DeclaredOption, declared=declared)


def add_option_of(group: type, name: str) -> Callable[..., Any]:
    """A decorator that adds one option of a group to a command."""
    return add_option(next(option for option in options_in(group) if option.name == name))
