"""An OBS for tests, a proxy in front of another one, and the faults that both inject."""

from tests.obs.faults import Fault as Fault, Seen as Seen, obs_fault as obs_fault, operation as operation
from tests.obs.servers import FaultProxy as FaultProxy, MemoryObs as MemoryObs
