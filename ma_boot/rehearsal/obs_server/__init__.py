"""An OBS of our own on loopback, for tests and rehearsals: signatures verified, faults on demand."""

from ma_boot.rehearsal.obs_server.server import ObsServer, Seen
from ma_boot.rehearsal.obs_server.wire.faults import Fault
from ma_boot.rehearsal.obs_server.wire.signatures import Credentials

__all__ = ["Credentials", "Fault", "ObsServer", "Seen"]
