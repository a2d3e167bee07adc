"""An OBS on loopback, for tests and rehearsals: verifies signatures, injects faults."""

from ma_boot.rehearsal.obs_server.directory_buckets import DirectoryBuckets as DirectoryBuckets
from ma_boot.rehearsal.obs_server.responses import ObsFault as ObsFault
from ma_boot.rehearsal.obs_server.server import ObsServer as ObsServer
from ma_boot.rehearsal.obs_server.signatures import KeyPair as KeyPair
