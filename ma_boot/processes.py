"""Signals to process groups: the group may be gone already, and nothing else is forgiven."""

from __future__ import annotations

import os
import signal


def signal_group(pgid: int, signum: int) -> bool:
    """Sends the signal to a whole group; False when no process of it is left."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    return True


def end_group(pgid: int) -> None:
    """Ends what is left of a group at once."""
    signal_group(pgid, signal.SIGKILL)
