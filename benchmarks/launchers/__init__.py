"""Eight ranks under ma_boot and its peers: how each is started, watched and ended."""

from launchers import process_tree
from launchers.job import Job, Unusable
from launchers.peers import LAUNCHERS, PATH, Launcher, environ
from launchers.rank import COUNT, FAILURE_CODE, LINE_BYTES
from launchers.throughput import cat_alone, received

__all__ = [
    "COUNT",
    "FAILURE_CODE",
    "LAUNCHERS",
    "LINE_BYTES",
    "PATH",
    "Job",
    "Launcher",
    "Unusable",
    "cat_alone",
    "environ",
    "process_tree",
    "received",
]
