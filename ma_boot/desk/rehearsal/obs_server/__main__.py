"""Serves a directory as OBS until SIGTERM: `python -m ma_boot.desk.rehearsal.obs_server ROOT PORT`.

Reads the keys from the same variables as a client. Prints `serving` once it accepts connections.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.obs_server.server import ObsServer
from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from ma_boot.report.console import print_lines


def _serve(root: Path, port: int) -> None:
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # threads inherit the mask
    known = KeyPair(os.environ["OBS_ACCESS_KEY_ID"], os.environ["OBS_SECRET_ACCESS_KEY"])
    with (
        tempfile.TemporaryDirectory() as parts,
        ObsServer(Buckets(root), Path(parts), [known], "0.0.0.0", port),
    ):
        print_lines("serving")
        signal.sigwait(stops)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
