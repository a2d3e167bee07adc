"""What surrounds a node while it boots: handed to whatever has an effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from ma_boot.processes import SignalInbox
from ma_boot.reporting import Console, Journal


@dataclass(frozen=True)
class World:
    """This process's environment, the directory it was started in, who listens, and who is told."""

    environ: Mapping[str, str]
    hostname: str
    cwd: str
    inbox: SignalInbox
    console: Console
    journal: Journal
