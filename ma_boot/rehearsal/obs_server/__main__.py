"""Serves a directory as OBS until SIGTERM: `python -m ma_boot.rehearsal.obs_server ROOT PORT`.

The credentials are those of the environment, as a client of it has them. Prints `serving` once it does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from ma_boot.rehearsal.obs_server import Credentials, ObsServer
from ma_boot.rehearsal.obs_server.storage.directory_buckets import DirectoryBuckets
from ma_boot.reporting.console import print_lines


def _serve(root: Path, port: int) -> None:
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # before the threads, which inherit it
    known = Credentials(os.environ["OBS_ACCESS_KEY_ID"], os.environ["OBS_SECRET_ACCESS_KEY"])
    with tempfile.TemporaryDirectory() as parts:
        server = ObsServer(Path(parts), [known], "0.0.0.0", port, buckets=DirectoryBuckets(root))
        with server:
            print_lines("serving")
            signal.sigwait(stops)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
