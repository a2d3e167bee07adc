"""The job's inputs and outputs, from ModelArts' variables `MA_INPUTS` and `MA_OUTPUTS`."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

VARIABLES = (("MA_INPUTS", "inputs"), ("MA_OUTPUTS", "outputs"))


class Channel(NamedTuple):
    """An input or output: `local_dir` is filled before the boot command, or uploaded; `url` is in OBS."""

    name: str
    kind: str  # "inputs" or "outputs"
    local_dir: str
    url: Optional[str]


class ChannelContent(NamedTuple):
    """The files that a channel's directory holds; there may be more of them if it is not `complete`."""

    channel: Channel
    files: int
    bytes: int
    complete: bool

    @property
    def empty(self) -> bool:
        """Whether there is no file at all; directories do not count."""
        return self.complete and not self.files


def read_channels(environ: Mapping[str, str]) -> Tuple[Tuple[Channel, ...], Tuple[str, ...]]:
    """The channels, and what is wrong with the variables.

    An entry has the keys of current jobs (`name`, `local_dir`, `remote`) or those of the platform's first
    version (`parameter`, `data_source`); ModelArts' launcher (davincirun, `common.py`) reads both.
    """
    found: List[Channel] = []
    problems: List[str] = []
    for variable, kind in VARIABLES:
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            entries = json.loads(text)[kind]
            found += [_channel(kind, entry) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"{variable} is not in the platform's format ({type(error).__name__}: {error})")
    return tuple(found), tuple(problems)


def _channel(kind: str, entry: Mapping[str, Any]) -> Channel:
    if "parameter" in entry:
        parameter = entry["parameter"]
        return Channel(str(parameter["label"]), kind, str(parameter["value"]), _url(entry.get("data_source")))
    return Channel(str(entry["name"]), kind, str(entry["local_dir"]), _url(entry.get("remote")))


def _url(remote: Optional[Mapping[str, Any]]) -> Optional[str]:
    for source in ("obs", "datasets"):
        if remote and remote.get(source):
            return str(remote[source]["obs_url"])
    return None
