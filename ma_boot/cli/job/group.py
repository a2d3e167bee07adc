"""The group `ma_boot job`, and its commands by name; each is imported when it is asked for."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click

from ma_boot.cli.help import Group


class _JobCommands(UserDict[str, Any]):
    def __getitem__(self, name: str) -> click.Command:
        module, attribute = self.data[name].split(":")
        command: click.Command = getattr(import_module(f"ma_boot.cli.job.{module}"), attribute)
        return command


_COMMANDS = {
    "init": "first_file:init",
    "submit": "submit:submit",
    "watch": "running:watch",
    "logs": "running:logs",
    "list": "running:list_jobs",
    "stop": "running:stop",
    "manifest": "manifest:manifest",
    "report": "running:report",
}


@click.group("job", cls=Group, commands=_JobCommands(_COMMANDS))
def job() -> None:
    """Submits a job to ModelArts as it was rehearsed, and follows it.

    \b
    Example:
      ma_boot job init train.py --epochs 90
      ma_boot --local --job job.yaml
      ma_boot job submit job.yaml --watch
    """
