"""The rehearsal: a simulated job on one machine, around the same boot."""
