"""`ma_boot completion`: prints what a shell evaluates to complete commands, options and files."""

from __future__ import annotations

import click

from ma_boot.report.console import print_lines

# The names by which the completion calls: `_MA_BOOT_COMPLETE=bash_complete ma_boot`, as click derives them.
_PROGRAM, _VARIABLE = "ma_boot", "_MA_BOOT_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: str) -> int:
    """Prints the completion of commands, options and files for a shell.

    Append it to ~/.bashrc or ~/.zshrc, or write it to ~/.config/fish/completions/ma_boot.fish.

    \b
    Example:
      ma_boot completion bash
    """
    from click.shell_completion import get_completion_class  # loaded by this command alone

    kind = get_completion_class(shell)
    assert kind is not None, shell
    print_lines(kind(click.Command(_PROGRAM), {}, _PROGRAM, _VARIABLE).source().rstrip("\n"))
    return 0
