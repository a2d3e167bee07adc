"""Inputs and outputs of the job form: what the platform itself moves, and how the training is told.

`--input data_url=obs://bucket/data/` is an input by the name of its hyper-parameter: the platform fetches it
before the boot command into `inputs/data_url_0`, and appends `--data_url=<that directory>`. `data_url@env=`
is one whose path is in the environment variable `data_url` instead, as "obtained from" says in the form.
Outputs lie in `outputs/<name>_0`, and are uploaded every 30 s and after the boot command has ended.
"""

from __future__ import annotations

import json
import os.path
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from ma_boot.errors import UsageError, listed
from ma_boot.node import boot_error
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob
from path_mapping import errors as mapping_errors
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import Store
from path_mapping.transfer import download, upload, upload_periodically

PERIOD_SECONDS = 30.0  # the default of CreateTrainingJob
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(@env)?=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Channel:
    """One input or output of the job form; `by_variable` says how the training gets its path."""

    name: str
    url: ObsUrl
    is_input: bool
    by_variable: bool

    def as_option(self) -> Tuple[str, str]:
        """The option of the command line, and its value."""
        way = "@env" if self.by_variable else ""
        return "--input" if self.is_input else "--output", f"{self.name}{way}={self.url}"

    def directory(self, job: SimulatedJob, node: int) -> str:
        """Its local directory on a node."""
        kind = "inputs" if self.is_input else "outputs"
        return os.path.join(job.directories(node)[f"/home/ma-user/modelarts/{kind}"], f"{self.name}_0")

    def route(self, job: SimulatedJob, node: int) -> Route:
        """How its files move on a node."""
        return Route(
            self.directory(job, node),
            self.url,
            interval=None if self.is_input else PERIOD_SECONDS,
            required=self.is_input,
        )


def parse_channels(inputs: Sequence[str], outputs: Sequence[str]) -> Tuple[Channel, ...]:
    """The channels; raises `UsageError` with every mistake."""
    found: List[Channel] = []
    problems: List[str] = []
    for option, texts in (("--input", inputs), ("--output", outputs)):
        for text in texts:
            match = _NAME.fullmatch(text)
            try:
                if match is None:
                    raise ValueError("expected NAME=obs://bucket/path, or NAME@env=obs://bucket/path")
                url = ObsUrl.parse(match.group(3))
                found.append(Channel(match.group(1), url, option == "--input", match.group(2) is not None))
            except ValueError as error:
                problems.append(f"{option} {text}: {error}")
    names = [channel.name for channel in found]
    problems += [f"{name}: expected once" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise UsageError(listed("inputs and outputs of the job form:", problems))
    return tuple(found)


def appended(channels: Sequence[Channel], job: SimulatedJob, node: int) -> Tuple[str, ...]:
    """The arguments that the platform appends to the boot command for them."""
    return tuple(
        f"--{channel.name}={channel.directory(job, node)}" for channel in channels if not channel.by_variable
    )


def variables(channels: Sequence[Channel], job: SimulatedJob, node: int) -> Dict[str, str]:
    """The environment variables for them; MA_INPUTS and MA_OUTPUTS as the official launcher reads them."""
    if not channels:
        return {}
    found = {channel.name: channel.directory(job, node) for channel in channels if channel.by_variable}
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
        found[f"MA_{kind.upper()}"] = json.dumps({kind: described})
    return found


def bring_inputs(
    channels: Sequence[Channel],
    job: SimulatedJob,
    nodes: Sequence[int],
    store: Store,
    cancel: threading.Event,
) -> None:
    """Fetches the inputs to each node, and makes the directories of the outputs; raises `BootError`."""
    for node in nodes:
        for channel in channels:
            Path(channel.directory(job, node)).mkdir(parents=True, exist_ok=True)
        routes = [channel.route(job, node) for channel in channels if channel.is_input]
        try:
            download(routes, Path(job.root), store, cancel=cancel, progress=lambda now: None)
        except mapping_errors.PathMappingError as error:
            raise boot_error(error) from error


def upload_outputs(
    channels: Sequence[Channel],
    job: SimulatedJob,
    store: Store,
    cancel: threading.Event,
    give_up: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Uploads the outputs every 30 s until cancelled, and all of them after it, unless that is given up: the
    side car of each node.

    All nodes' outputs go to the same place. What cannot be uploaded is said: the job's exit code is the boot
    command's.
    """
    base = Path(job.root)

    def routes(node: int) -> List[Route]:
        return [channel.route(job, node) for channel in channels if not channel.is_input]

    def side_car(node: int) -> None:
        upload_periodically(
            routes(node), base, store, cancel=cancel, done=lambda moved: None,
            failed=lambda error: say(f"the platform's upload: {error}"),
        )  # fmt: skip

    with ThreadPoolExecutor(job.nodes, "side-car") as cars:
        list(cars.map(side_car, range(job.nodes)))
    cancel.wait()
    for node in range(job.nodes):
        try:
            upload(routes(node), base, store, cancel=give_up, progress=lambda now: None)
        except (mapping_errors.PathMappingError, OSError) as error:
            say(f"the platform's last upload: {error}")
