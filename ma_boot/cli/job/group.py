"""The group `ma_boot job`, and its commands by name; each is imported when it is asked for."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click

from ma_boot.cli.help import Group


class _JobCommands(UserDict[str, Any]):
    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"ma_boot.cli.job.{self.data[name]}"), name)
        return command


@click.group("job", cls=Group, commands=_JobCommands({"init": "first_file", "submit": "submit"}))
def job() -> None:
    """Submits a job to ModelArts, as it was rehearsed.

    \b
    Example:
      ma_boot job init train.py --epochs 90
      ma_boot --local --job job.yaml
    """
