"""Lists, opens and removes kept rehearsals."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.click_types import Whole
from ma_boot.desk.rehearsal.kept import KeptRehearsal, kept_in, named, pruned, remove
from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.node.rehearsal_options import RehearsalOptions
from ma_boot.report.console import print_lines
from ma_boot.wording import size

_directory = click.option(
    "--rehearsal-dir",
    default=RehearsalOptions().rehearsal_dir,
    show_default=True,
    envvar="MABOOT_REHEARSAL_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the rehearsals are.",
)


@click.group(cls=Group)
def rehearsal() -> None:
    """Lists, opens and removes the rehearsals of `ma_boot --local`.

    The options of a rehearsal itself: `ma_boot --help rehearsal`.

    \b
    Example:
      ma_boot rehearsal list
    """


@rehearsal.command("list")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_all(rehearsal_dir: Path, as_json: bool) -> int:
    """Prints a line for each rehearsal, the newest first.

    \b
    Example:
      ma_boot rehearsal list
    """
    rehearsals = kept_in(rehearsal_dir)
    if as_json:
        values = [{**kept._asdict(), "path": str(kept.path), "bytes": kept.bytes()} for kept in rehearsals]
        print_lines(json.dumps(values, indent=2, ensure_ascii=False, default=str))
    elif not rehearsals:
        print_lines(f"no rehearsals in {rehearsal_dir}")
    else:
        print_lines("\n".join(map(_line, rehearsals)))
    return 0


def _line(kept: KeptRehearsal) -> str:
    start = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(kept.began))
    code = "no end" if kept.exit_code is None else f"exit code {kept.exit_code}"
    command = kept.command.replace("\n", "\\n")
    end = "running" if kept.running else code
    return f"{kept.name}  {start}  {end:13}  {size(kept.bytes()):>8}  {command}"


@rehearsal.command("open")
@click.argument("name", required=False)
@_directory
@click.pass_obj
def open_page(environ: Mapping[str, str], name: str | None, rehearsal_dir: Path) -> int:
    """Opens the page of a rehearsal in the browser, by default the newest one that has a page.

    NAME is as `ma_boot rehearsal list` prints it, or a part of it. The path is printed, too.

    \b
    Example:
      ma_boot rehearsal open
    """
    rehearsals = named(rehearsal_dir, [name]) if name else kept_in(rehearsal_dir)
    page = next((kept.page for kept in rehearsals if kept.page is not None), None)
    if page is None:
        raise ConfigError(f"no page of {name or 'a rehearsal'} in {rehearsal_dir}: does it run still?")
    page = page.absolute()
    print_lines(str(page))
    has_screen = sys.platform == "darwin" or any(
        environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if has_screen:
        import webbrowser

        has_screen = webbrowser.open(page.as_uri())
    if not has_screen:
        print_lines("no browser was found to open it (DISPLAY, WAYLAND_DISPLAY, BROWSER)", 2)
    return 0


@rehearsal.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_directory
@click.option("--keep", type=Whole(0), metavar="N", help="Keep the N newest; 0 removes all.")
def clean(names: Sequence[str], rehearsal_dir: Path, keep: int | None) -> int:
    """Removes rehearsals that are over, with all their files: those of these NAMES, or the oldest.

    What runs, and what no rehearsal has made, stays.

    \b
    Example:
      ma_boot rehearsal clean --keep 5
    """
    if bool(names) == (keep is not None):
        raise click.UsageError("expected either NAMES, or --keep N: how many of the newest stay (0: none)")
    if keep is not None:
        removed, problems = pruned(rehearsal_dir, keep)
        print_lines(f"{removed} removed from {rehearsal_dir}")
        if problems:
            raise CannotCreate("\n".join(problems))
        return 0
    for kept in named(rehearsal_dir, names):
        remove(kept)
        print_lines(f"{kept.path} removed")
    return 0
