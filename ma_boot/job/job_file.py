"""A training job as its file or its options describe it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Set, Tuple

from path_mapping.mapping import ObsUrl


class JobProblem(NamedTuple):
    """A mistake in a job: the line of the file, None if it is not from a file, the key, and what is wrong."""

    line: Optional[int]
    key: str
    text: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.key}: {self.text}" if self.key else f"{where}{self.text}"


@dataclass(frozen=True)
class JobChannel:
    """An input or output of the job form: its name, its place in OBS, and whether the training finds its
    local path in the environment variable `name` instead of an argument `--name=PATH`."""

    name: str
    url: ObsUrl
    by_variable: bool = False

    def __str__(self) -> str:
        """As in the options `--input` and `--output`."""
        return f"{self.name}{'@env' if self.by_variable else ''}={self.url}"


@dataclass(frozen=True)
class JobFile:
    """A job. Each field is a key of the file, with hyphens for underscores.

    `command` is what follows `ma_boot` and its options, which are in `options` as words of a command line.
    `time_limit` is in hours. `secrets` names variables of the shell that submits the job whose values the job
    gets. `request` is merged into the request as it is. `lines` has the line of each key in the file.
    """

    name: str = ""
    description: str = ""
    image: str = ""
    command: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()
    nodes: int = 1
    devices_per_node: int = 1
    pool: str = ""
    flavor: str = ""
    code_dir: str = ""
    code_url: Optional[ObsUrl] = None
    exclude: Tuple[str, ...] = ()
    inputs: Tuple[JobChannel, ...] = ()
    outputs: Tuple[JobChannel, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Tuple[str, ...] = ()
    log_url: Optional[ObsUrl] = None
    retries: int = 0
    time_limit: int = 0
    workspace: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def problem(self, key: str, text: str) -> JobProblem:
        """A mistake at this key, or at the part of it that is named after a colon: `inputs: data_url`."""
        return JobProblem(self.lines.get(key) or self.lines.get(f"{key}@env"), key, text)

    @property
    def arguments(self) -> Tuple[str, ...]:
        """What the platform appends to the boot command after the channels: the hyper-parameters."""
        return tuple(f"--{name}={value}" for name, value in self.parameters.items())


def overridden(job: JobFile, given: Mapping[str, Any]) -> JobFile:
    """The job with other values of these fields: options and patterns are added; channels, parameters and
    variables are replaced or added by their names; all else is replaced."""
    changes: Dict[str, Any] = {}
    for name, value in given.items():
        mine = getattr(job, name)
        if name in ("parameters", "environment"):
            changes[name] = {**mine, **value}
        elif name in ("inputs", "outputs"):
            changes[name] = tuple({channel.name: channel for channel in (*mine, *value)}.values())
        elif name in ("options", "exclude", "secrets"):
            changes[name] = (*mine, *value)
        else:
            changes[name] = value
    ours: Set[str] = set()
    for name, value in given.items():
        key, merged = (
            name.replace("_", "-"),
            isinstance(getattr(job, name), (tuple, dict)) and name != "command",
        )
        parts = [getattr(one, "name", one) for one in value] if merged else []
        ours |= {f"{key}: {part}" for part in parts} if merged else {key}
    lines = {key: line for key, line in job.lines.items() if key.partition("@")[0] not in ours}
    return replace(job, **changes, lines=lines)
