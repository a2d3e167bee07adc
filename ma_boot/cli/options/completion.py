"""What a shell offers for a value: click asks for it where completion is set up, see `ma_boot --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[CompletionItem]:
    """The shell's own names of files."""
    return _paths("file", incomplete)


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[CompletionItem]:
    """The shell's own names of directories."""
    return _paths("dir", incomplete)


def _paths(kind: str, incomplete: str) -> List[CompletionItem]:
    from click.shell_completion import CompletionItem  # only a shell that completes needs it

    return [CompletionItem(incomplete, type=kind)]


FILE: Dict[str, Any] = {"metavar": "FILE", "shell_complete": files}
DIR: Dict[str, Any] = {"metavar": "DIR", "shell_complete": directories}
