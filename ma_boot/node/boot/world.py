"""What surrounds the boot: the environment it was started in, its signals and its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple

from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal

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
