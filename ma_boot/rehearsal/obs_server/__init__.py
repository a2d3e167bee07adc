"""An OBS on loopback, for tests and rehearsals: verifies signatures, injects faults."""

from ma_boot.rehearsal.obs_server.server import ObsServer
from ma_boot.rehearsal.obs_server.wire import KeyPair, ObsFault

__all__ = ["KeyPair", "ObsFault", "ObsServer"]
