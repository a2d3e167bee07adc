"""Shell completion of files and directories, and the settings of options that take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[CompletionItem]:
    """Lets the shell complete a file name."""
    return _paths("file", incomplete)


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[CompletionItem]:
    """Lets the shell complete a directory name."""
    return _paths("dir", incomplete)


def _paths(kind: str, incomplete: str) -> List[CompletionItem]:
    from click.shell_completion import CompletionItem  # needed for completion only

    return [CompletionItem(incomplete, type=kind)]


FILE: Dict[str, Any] = {"metavar": "FILE", "shell_complete": files}
DIR: Dict[str, Any] = {"metavar": "DIR", "shell_complete": directories}
