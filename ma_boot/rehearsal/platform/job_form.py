"""Inputs and outputs of the job form: where they are on a node, and how the training is told. Pure.

`--input data_url=obs://bucket/data/` is an input named by its hyper-parameter: before the boot command the
platform downloads it into `inputs/data_url_0`, and appends `--data_url=<that directory>`. The path of
`data_url@env=` is in the environment variable `data_url` instead, the other choice of "obtained from" in the
form. Outputs are in `outputs/<name>_0`; they are uploaded every 30 s, and after the boot command.
"""

from __future__ import annotations

import json
import os.path
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Sequence, Tuple

from ma_boot.errors import UsageError, listed
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob

if TYPE_CHECKING:
    from path_mapping.mapping import ObsUrl, Route

PERIOD_SECONDS = 30.0  # the default of CreateTrainingJob
_OPTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(@env)?=(.*)", re.DOTALL)


@dataclass(frozen=True)
class FormChannel:
    """An input or output of the job form; the training gets its path in a variable, or as an argument."""

    name: str
    url: ObsUrl
    is_input: bool
    by_variable: bool

    def directory(self, job: SimulatedJob, node: int) -> str:
        """Its local directory on a node."""
        kind = "inputs" if self.is_input else "outputs"
        return os.path.join(job.directories(node)[f"/home/ma-user/modelarts/{kind}"], f"{self.name}_0")

    def route(self, job: SimulatedJob, node: int) -> Route:
        """The route of its files on a node."""
        from path_mapping.mapping import Route  # here, as not every program of this room's has a job form

        return Route(
            self.directory(job, node),
            self.url,
            interval=None if self.is_input else PERIOD_SECONDS,
            required=self.is_input,
        )


def parse_channels(inputs: Sequence[str], outputs: Sequence[str]) -> Tuple[FormChannel, ...]:
    """Parses the values of `--input` and `--output`; raises `UsageError` with every mistake in them."""
    from path_mapping.mapping import ObsUrl

    channels: List[FormChannel] = []
    problems: List[str] = []
    for option, texts in (("--input", inputs), ("--output", outputs)):
        for text in texts:
            match = _OPTION.fullmatch(text)
            try:
                if match is None:
                    raise ValueError("expected NAME=obs://bucket/path, or NAME@env=obs://bucket/path")
                name, by_variable, url = match.groups()
                channels.append(FormChannel(name, ObsUrl.typed(url), option == "--input", bool(by_variable)))
            except ValueError as error:
                problems.append(f"{option} {text}: {error}")
    names = [channel.name for channel in channels]
    problems += [f"{name}: expected once" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise UsageError(listed("inputs and outputs of the job form:", problems))
    return tuple(channels)


def channel_arguments(channels: Sequence[FormChannel], job: SimulatedJob, node: int) -> Tuple[str, ...]:
    """The arguments that the platform appends to the boot command."""
    return tuple(
        f"--{channel.name}={channel.directory(job, node)}" for channel in channels if not channel.by_variable
    )


def channel_variables(channels: Sequence[FormChannel], job: SimulatedJob, node: int) -> Dict[str, str]:
    """The environment variables that the platform sets, MA_INPUTS and MA_OUTPUTS among them."""
    if not channels:
        return {}
    variables = {channel.name: channel.directory(job, node) for channel in channels if channel.by_variable}
    for kind in ("inputs", "outputs"):
        described = [
            {
                "name": channel.name,
                "local_dir": channel.directory(job, node),
                "remote": {"obs": {"obs_url": str(channel.url)}},
            }
            for channel in channels
            if channel.is_input == (kind == "inputs")
        ]
        variables[f"MA_{kind.upper()}"] = json.dumps({kind: described})
    return variables
