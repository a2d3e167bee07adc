"""An OBS of our own on loopback, for tests and rehearsals: signatures verified, faults on demand."""

from ma_boot.local.obs_server.faults import Fault
from ma_boot.local.obs_server.server import ObsServer, Seen
from ma_boot.local.obs_server.signatures import Credentials

__all__ = ["Credentials", "Fault", "ObsServer", "Seen"]
