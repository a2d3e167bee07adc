"""Opens the page of a rehearsal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from ma_boot.cli.help import Group
from ma_boot.desk.rehearsal.kept import find_page
from ma_boot.node.rehearsal_options import RehearsalOptions
from ma_boot.report.console import print_lines


@click.group(cls=Group)
def rehearsal() -> None:
    """Opens the page of a rehearsal of `ma_boot --local`.

    The options of a rehearsal itself: `ma_boot --help rehearsal`.

    \b
    Example:
      ma_boot rehearsal open
    """


@rehearsal.command("open")
@click.argument("name", required=False)
@click.option(
    "--rehearsal-dir",
    default=RehearsalOptions().rehearsal_dir,
    show_default=True,
    envvar="MABOOT_REHEARSAL_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the rehearsals are.",
)
@click.pass_obj
def open_page(environ: Mapping[str, str], name: str | None, rehearsal_dir: Path) -> int:
    """Opens the page of a rehearsal in the browser, by default the newest one that has a page.

    NAME is the name of a rehearsal's directory, or a part of it. The link is printed, too.

    \b
    Example:
      ma_boot rehearsal open
    """
    page = find_page(rehearsal_dir, name).absolute()
    print_lines(page.as_uri())
    has_screen = sys.platform == "darwin" or any(
        environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if has_screen:
        import webbrowser

        has_screen = webbrowser.open(page.as_uri())
    if not has_screen:
        print_lines("no browser was found to open it (DISPLAY, WAYLAND_DISPLAY, BROWSER)", 2)
    return 0
