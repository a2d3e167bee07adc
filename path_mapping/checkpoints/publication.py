"""What a node publishes, and what it has published. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Tuple

from path_mapping.checkpoints.step_watch import LocalStep
from path_mapping.mapping import Route
from path_mapping.sets import Attempt, Part, Place, SetName


@dataclass(frozen=True)
class Publication:
    """What a node publishes, and as whom.

    `way` is the output, whose relative local path starts at `base`; `resumed` is the set that the attempt
    went on from, `job` the name of the job for people. `told` gets lines for people, `counted` the facts of
    each set of this node: the step, the files, bytes and seconds of this node's part.
    """

    way: Route
    base: Path
    place: Place
    attempt: Attempt
    node: int
    nodes: int
    ranks: Tuple[int, ...]
    world: int
    resumed: Optional[SetName]
    job: str
    told: Callable[[str], None]
    counted: Callable[[str, int, int, float], None]

    @property
    def root(self) -> Path:
        """The directory of the output."""
        return self.way.path(self.base)


class Published(NamedTuple):
    """A step that is published, with the states that its files had."""

    local: LocalStep
    part: Part
