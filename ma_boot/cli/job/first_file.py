"""`ma_boot job init`: writes a first job file, never over an existing one, and asks no question."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Any, Callable

import click

from ma_boot.cli.options.click_types import FILE, Whole, files
from ma_boot.desk.job.job_file import JobFile, overridden, parse_job
from ma_boot.desk.job.rules import form_problems, missing_fields
from ma_boot.desk.job.template import Answers, first_job_file, first_mapping
from ma_boot.desk.rehearsal.platform.simulated_job import parse_channels
from ma_boot.errors import CannotCreate, UsageError
from ma_boot.report.console import print_lines
from path_mapping.mapping.document import find_unprintable
from path_mapping.mapping.routes import ObsUrl

_MAPPING = "path_mapping_config.py"
_LONGEST_NAME = 51  # in a manifest for Kubernetes; the job form accepts 64
_CHANNEL: dict[str, Any] = {"multiple": True, "metavar": "NAME=OBS"}


def _field(key: str) -> Callable[[str], str]:
    """The type of a key of the job file, or of the bucket: accepts the values of the form."""

    def text(value: str) -> str:
        wrong: Sequence[object] = ()
        try:
            if key == "bucket":
                ObsUrl.typed(f"obs://{value}/")
            else:
                wrong = form_problems(overridden(JobFile(), {key: value}))
        except ValueError as error:
            wrong = [error]
        if wrong:
            raise click.BadParameter("; ".join(map(str, wrong)))
        return value

    return text


@click.command("init", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]")
@click.option("--file", **FILE, default="job.yaml", show_default=True, help="The job file to write.")
@click.option(
    "--name", type=_field("name"), metavar="TEXT", help="Name of the job; default: this directory's."
)
@click.option("--image", type=_field("image"), metavar="IMAGE", help="ORGANIZATION/NAME:TAG in SWR.")
@click.option("--nodes", type=Whole(1, 1024), metavar="N", default=1, help="Number of nodes.  [default: 1]")
@click.option("--devices-per-node", type=Whole(1, 16), metavar="N", default=1, help="Cards.  [default: 1]")
@click.option("--pool", metavar="ID", help="Id of a dedicated pool.")
@click.option("--bucket", type=_field("bucket"), metavar="BUCKET", help="Bucket for code, logs and outputs.")
@click.option("--input", "inputs", **_CHANNEL, help="An input, e.g. data_url=obs://bucket/data/.")
@click.option("--output", "outputs", **_CHANNEL, help="An output, e.g. train_url=obs://bucket/out/.")
@click.option("--mapping", is_flag=True, help=f"Write a path mapping, too: {_MAPPING}.")
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [ARGS]...]", shell_complete=files
)
def init(
    file: str,
    name: str | None,
    image: str | None,
    nodes: int,
    devices_per_node: int,
    pool: str | None,
    bucket: str | None,
    inputs: Sequence[str],
    outputs: Sequence[str],
    mapping: bool,
    command: Sequence[str],
) -> int:
    """Writes a first job file; what is not given becomes an example in a comment.

    An existing file is never overwritten. COMMAND is train.py by default.

    \b
    Example:
      ma_boot job init --nodes 2 --devices-per-node 8 train.py --epochs 90
    """
    targets = [file, _MAPPING] if mapping else [file]
    _check_targets(targets)
    channels = parse_channels(inputs, outputs)
    answers = Answers(
        name=name or _name_here(),
        command=tuple(command) or ("train.py",),
        image=image or "",
        nodes=nodes,
        devices_per_node=devices_per_node,
        pool=pool or "",
        bucket=bucket or "",
        mapping=_MAPPING if mapping else "",
        inputs={_key_of(channel): str(channel.url) for channel in channels if channel.is_input},
        outputs={_key_of(channel): str(channel.url) for channel in channels if not channel.is_input},
    )
    _check_characters(answers)
    text = first_job_file(answers)
    for path, content in zip(targets, (text, first_mapping(answers))):
        try:
            with open(path, "x", encoding="utf-8", newline="") as stream:
                stream.write(content)
        except OSError as error:
            raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
    print_lines("\n".join([*targets, *_next_steps(file, text)]))
    return 0


def _check_targets(targets: Sequence[str]) -> None:
    existing = [path for path in targets if os.path.lexists(path)]
    if existing:
        raise CannotCreate(
            f"{', '.join(existing)}: already exists, and is never overwritten; --file names another"
        )


def _check_characters(answers: Answers) -> None:
    """Raises `UsageError` for a value that the reader of job files refuses."""
    values = {
        "COMMAND": " ".join(answers.command),
        "--pool": answers.pool,
        "--input": " ".join(answers.inputs.values()),
        "--output": " ".join(answers.outputs.values()),
    }
    wrong = [
        f"{where}: found the character {found[0]!r}, which a job file cannot have"
        for where, value in values.items()
        if (found := find_unprintable(value))
    ]
    if wrong:
        raise UsageError("; ".join(wrong))


def _key_of(channel: Any) -> str:
    return f"{channel.name}@env" if channel.by_variable else str(channel.name)


def _next_steps(file: str, text: str) -> list[str]:
    """Returns the command of the rehearsal, and the keys that a submission needs besides."""
    missing = [problem.key for problem in missing_fields(parse_job(text)[0])]
    to_do = [f"before submitting, fill in: {', '.join(missing)}"] if missing else []
    return [f"next: ma_boot --local --job {shlex.quote(file)}", *to_do]


def _name_here() -> str:
    """Derives a name for the job from this directory, by the rules of ModelArts and of Kubernetes."""
    words = re.sub(r"[^a-z0-9]+", "-", os.path.basename(os.getcwd()).lower())
    return words.lstrip("-0123456789")[:_LONGEST_NAME].rstrip("-") or "job"
