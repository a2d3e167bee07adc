"""What a node publishes, and as whom. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.node.checkpoints.keys import Attempt, Place, SetName
from ma_boot.node.checkpoints.layout import Layout
from ma_boot.node.checkpoints.options import FIRST, CheckpointOptions
from path_mapping.mapping.routes import Route

LOOK_SECONDS = 10.0  # the interval of an output that has none
REST_SECONDS = 5.0  # for which a file must not change, unless the interval is short


class JobStart(NamedTuple):
    """A start of a job as a node of it sees it.

    `ranks` are those of this node, `world` is the number of all. `job` is the identity of the job, which
    stays when the platform restarts it, `start` that of this start, the same on all its nodes; `take_over`:
    as the user says, no other job publishes to the same places.
    """

    node: int
    nodes: int
    ranks: tuple[int, ...]
    world: int
    job: str = ""
    start: str = ""
    take_over: bool = False


@dataclass(frozen=True)
class Publication:
    """What a node publishes, and as whom.

    `way` is the output, whose relative local path starts at `base`; `resumed` is the set that the attempt
    went on from. `say` gets lines for people, `counted` the facts of each part of this node: the step, the
    files, bytes and seconds.
    """

    way: Route
    options: CheckpointOptions
    base: Path
    place: Place
    attempt: Attempt
    start: JobStart
    resumed: SetName | None
    say: Callable[[str], None]
    counted: Callable[[str, int, int, float], None]

    @property
    def root(self) -> Path:
        """The directory of the output."""
        return self.way.path(self.base)

    @property
    def rest_seconds(self) -> float:
        """How long a file must not change, and the time between two looks at the disk, in seconds."""
        return min(REST_SECONDS, (self.way.interval or LOOK_SECONDS) / 2)

    @property
    def pause(self) -> float:
        """The seconds between two looks for what others have published, while nothing happens here."""
        return 3 * (self.way.interval or LOOK_SECONDS)

    def savers(self, layout: Layout | None) -> tuple[int, ...]:
        """The nodes that save, by the mapping, else by what is known of the layout, else all."""
        savers = self.options.savers or (layout.savers if layout is not None else None)
        if isinstance(savers, tuple):
            return savers
        return (0,) if savers == FIRST else tuple(range(self.start.nodes))
