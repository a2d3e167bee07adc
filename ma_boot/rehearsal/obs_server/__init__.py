"""An OBS on loopback for rehearsals: serves directories, verifies signatures, injects faults."""

from ma_boot.rehearsal.obs_server.buckets import Buckets as Buckets
from ma_boot.rehearsal.obs_server.faults import ObsFault as ObsFault
from ma_boot.rehearsal.obs_server.server import ObsServer as ObsServer
from ma_boot.rehearsal.obs_server.signatures import KeyPair as KeyPair
