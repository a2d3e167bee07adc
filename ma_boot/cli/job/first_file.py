"""`ma_boot job init`: writes a first job file, never over an existing one."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Mapping, Optional, Sequence

import click

from ma_boot.cli.options import FILE, files
from ma_boot.errors import CannotCreate
from ma_boot.job import Answers, first_job_file, first_mapping
from ma_boot.reporting import print_lines

_MAPPING = "path_mapping_config.py"


@click.command("init", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]")
@click.option("--output", **FILE, default="job.yaml", show_default=True, help="The job file to write.")
@click.option("--name", help="Name of the job; default: that of this directory.")
@click.option("--image", metavar="IMAGE", help="ORGANIZATION/NAME:TAG in SWR.")
@click.option("--nodes", type=click.IntRange(1, 1024), metavar="N", help="Number of nodes.  [default: 1]")
@click.option("--devices-per-node", type=click.IntRange(1, 16), metavar="N", help="Cards.  [default: 1]")
@click.option("--pool", metavar="ID", help="Id of a dedicated pool.")
@click.option("--bucket", metavar="BUCKET", help="Bucket for code, logs and outputs.")
@click.option("--mapping", is_flag=True, help=f"Write a path mapping, too: {_MAPPING}.")
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [ARGS]...]", shell_complete=files
)
@click.pass_obj
def init(
    environ: Mapping[str, str],
    output: str,
    name: Optional[str],
    image: Optional[str],
    nodes: Optional[int],
    devices_per_node: Optional[int],
    pool: Optional[str],
    bucket: Optional[str],
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
        name=name or _answer(ask, "Name of the job", _name_here()),
        command=tuple(command) or tuple(_answer(ask, "Training command", "train.py").split()),
        image=image or _answer(ask, "Image in SWR (organization/name:tag)", ""),
        nodes=nodes or int(_answer(ask, "Nodes", "1", click.IntRange(1, 1024))),
        devices_per_node=devices_per_node or int(_answer(ask, "Cards per node", "1", click.IntRange(1, 16))),
        pool=pool or _answer(ask, "Dedicated pool (id; empty: public pool)", ""),
        bucket=bucket or _answer(ask, "Bucket in OBS", ""),
        mapping=_MAPPING if mapping else "",
    )
    for path, text in zip(targets, (first_job_file(answers), first_mapping(answers))):
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
    print_lines("\n".join([*targets, f"next: ma_boot --local --job {output}"]))
    return 0


def _name_here() -> str:
    """A name for the job from that of this directory."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(os.getcwd())).strip("-")[:64] or "job"


def _answer(ask: bool, question: str, default: str, kind: Any = None) -> str:
    if not ask:
        return default
    return str(click.prompt(question, default=default, show_default=bool(default), type=kind, err=True))
