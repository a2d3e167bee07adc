"""`ma_boot job ...`: the job on ModelArts, by the same file as its rehearsal."""

import click

from ma_boot.cli.help import Group, LazyCommands

_COMMANDS = {
    "init": "ma_boot.cli.job.first_file:init",
    "submit": "ma_boot.cli.job.submit:submit",
    "watch": "ma_boot.cli.job.running:watch",
    "logs": "ma_boot.cli.job.running:logs",
    "list": "ma_boot.cli.job.running:list_jobs",
    "stop": "ma_boot.cli.job.running:stop",
    "manifest": "ma_boot.cli.job.manifest:manifest",
    "report": "ma_boot.cli.job.running:report",
}


@click.group("job", cls=Group, commands=LazyCommands(_COMMANDS))
def job() -> None:
    """Submits a job to ModelArts as it was rehearsed, and follows it.

    \b
    Example:
      ma_boot job init train.py --epochs 90
      ma_boot --local --job job.yaml
      ma_boot job submit job.yaml --watch
    """
