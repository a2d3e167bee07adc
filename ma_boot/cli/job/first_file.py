"""`ma_boot job init`: writes a first job file, never over an existing one."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import click

from ma_boot.cli.options.click_types import FILE, Whole, files
from ma_boot.desk.job.job_file import JobFile, overridden
from ma_boot.desk.job.rules import form_problems
from ma_boot.desk.job.template import Answers, first_job_file, first_mapping
from ma_boot.errors import CannotCreate, UsageError
from ma_boot.report.console import print_lines
from path_mapping.mapping.routes import ObsUrl

_MAPPING = "path_mapping_config.py"


def _field(key: str) -> Callable[[str], str]:
    """The type of a key of the job file, or of the bucket: accepts the values of the form."""

    def text(value: str) -> str:
        wrong: Sequence[object] = ()
        try:
            if key == "command":
                shlex.split(value)
            elif key == "bucket" and value:
                ObsUrl.typed(f"obs://{value}/")
            elif key != "bucket":
                wrong = form_problems(overridden(JobFile(), {key: value}))
        except ValueError as error:
            wrong = [error]
        if wrong:
            raise click.BadParameter("; ".join(map(str, wrong)))
        return value

    return text


@click.command("init", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]")
@click.option("--output", **FILE, default="job.yaml", show_default=True, help="The job file to write.")
@click.option(
    "--name", type=_field("name"), metavar="TEXT", help="Name of the job; default: this directory's."
)
@click.option("--image", type=_field("image"), metavar="IMAGE", help="ORGANIZATION/NAME:TAG in SWR.")
@click.option("--nodes", type=Whole(1, 1024), metavar="N", help="Number of nodes.  [default: 1]")
@click.option("--devices-per-node", type=Whole(1, 16), metavar="N", help="Cards.  [default: 1]")
@click.option("--pool", metavar="ID", help="Id of a dedicated pool.")
@click.option("--bucket", type=_field("bucket"), metavar="BUCKET", help="Bucket for code, logs and outputs.")
@click.option("--mapping", is_flag=True, help=f"Write a path mapping, too: {_MAPPING}.")
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [ARGS]...]", shell_complete=files
)
@click.pass_obj
def init(
    environ: Mapping[str, str],
    output: str,
    name: str | None,
    image: str | None,
    nodes: int | None,
    devices_per_node: int | None,
    pool: str | None,
    bucket: str | None,
    mapping: bool,
    command: Sequence[str],
) -> int:
    """Writes a first job file with comments; on a terminal it asks for what is not given.

    An existing file is never overwritten.

    \b
    Example:
      ma_boot job init --nodes 2 --devices-per-node 8 train.py --epochs 90
    """
    targets = [output, _MAPPING] if mapping else [output]
    existing = [path for path in targets if os.path.lexists(path)]
    if existing:
        raise CannotCreate(
            f"{', '.join(existing)}: already exists, and is never overwritten; --output names another"
        )
    ask = sys.stdin.isatty() and sys.stderr.isatty()
    answers = Answers(
        name=name or _answer(ask, "Name of the job", _name_here(), _field("name")),
        command=tuple(command)
        or tuple(shlex.split(_answer(ask, "Training command", "train.py", _field("command")))),
        image=image or _answer(ask, "Image in SWR (organization/name:tag)", "", _field("image")),
        nodes=nodes or int(_answer(ask, "Nodes", "1", Whole(1, 1024))),
        devices_per_node=devices_per_node or int(_answer(ask, "Cards per node", "1", Whole(1, 16))),
        pool=pool or _answer(ask, "Dedicated pool (id; empty: public pool)", ""),
        bucket=bucket or _answer(ask, "Bucket in OBS", "", _field("bucket")),
        mapping=_MAPPING if mapping else "",
    )
    try:
        contents = [text.encode() for text in (first_job_file(answers), first_mapping(answers))]
    except UnicodeEncodeError as error:
        raise UsageError(
            f"found a word that is not UTF-8: {error.object[error.start : error.end]!r}"
        ) from error
    for path, content in zip(targets, contents):
        try:
            with open(path, "xb") as file:
                file.write(content)
        except OSError as error:
            raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
    print_lines("\n".join([*targets, f"next: ma_boot --local --job {output}"]))
    return 0


def _name_here() -> str:
    """Derives a name for the job from this directory."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(os.getcwd())).strip("-")[:64] or "job"


def _answer(ask: bool, question: str, default: str, kind: Any = None) -> str:
    if not ask:
        return default
    return str(click.prompt(question, default=default, show_default=bool(default), type=kind, err=True))
