"""An OBS on loopback, for tests and rehearsals: verifies signatures, injects faults."""

from ma_boot.rehearsal.obs_server.server import ObsServer as ObsServer
from ma_boot.rehearsal.obs_server.wire import KeyPair as KeyPair, ObsFault as ObsFault
