"""An OBS on loopback for rehearsals: serves directories, verifies signatures, injects faults."""
