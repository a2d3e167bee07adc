"""What surrounds the boot: the environment it was started in, its signals and its output."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

from ma_boot.processes import SignalInbox
from ma_boot.reporting import Journal

Say = Callable[[str], None]  # prints a line of ma_boot's own, as `Journal.say` does


class World(NamedTuple):
    """This process's environment and working directory, its stop signals and its journal.

    Only whoever runs a whole node, or a whole rehearsal, sees all of it; a phase gets the parts it needs.
    """

    environ: Mapping[str, str]
    hostname: str
    cwd: str
    inbox: SignalInbox
    journal: Journal
