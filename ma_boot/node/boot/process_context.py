"""Process context: the environment ma_boot was started in, its stop signals and its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple

from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal

# Prints a line of ma_boot itself, as `Journal.say` does.
Say = Callable[[str], None]


class ProcessContext(NamedTuple):
    """Environment, host name, working directory, stop signals and journal of this process.

    The code that runs a whole node or a whole rehearsal has all of it; a phase gets the parts that it needs.
    """

    environ: Mapping[str, str]
    hostname: str
    cwd: str
    inbox: SignalInbox
    journal: Journal
