"""An output with checkpoints on one node: its options, its place in OBS, its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.options import FIRST, CheckpointOptions
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Place
from path_mapping.mapping.routes import Route
from path_mapping.stores.store import Store

# Seconds; the interval of an output whose mapping gives none.
DEFAULT_INTERVAL = 10.0
# Seconds; longest time for which a file must not change before it is taken. Writers of checkpoints pause for
# less; with a short interval half of it is enough.
REST_SECONDS = 5.0


@dataclass(frozen=True)
class CheckpointRoute:
    """An output with checkpoints, for the whole run of a node: it is the same in all attempts.

    The relative local path of `route` starts at `base`. `take_over`: the user states that no other job
    publishes to the same place. `say` prints a line; `report` takes the step, files, bytes and seconds of
    each part that this node has published.
    """

    route: Route
    options: CheckpointOptions
    base: Path
    store: Store
    member: JobMember
    say: Callable[[str], None]
    report: Callable[[str, int, int, float], None]
    take_over: bool = False

    @property
    def root(self) -> Path:
        """Local directory of the output."""
        return self.route.path(self.base)

    @property
    def place(self) -> Place:
        """Location of the checkpoints in OBS."""
        return Place.of(self.route.remote)

    @property
    def rest_seconds(self) -> float:
        """Seconds for which a file must not change, and between two looks at the disk."""
        return min(REST_SECONDS, (self.route.interval or DEFAULT_INTERVAL) / 2)

    @property
    def listing_pause(self) -> float:
        """Seconds between two listings of the peers' parts, while this node publishes nothing."""
        return 3 * (self.route.interval or DEFAULT_INTERVAL)

    def savers(self, layout: Layout | None) -> tuple[int, ...]:
        """Returns the numbers of the savers: as in the mapping, else as in the layout, else all nodes."""
        savers = self.options.savers or (layout.savers if layout is not None else None)
        if isinstance(savers, tuple):
            return savers
        return (0,) if savers == FIRST else tuple(range(self.member.nodes))
