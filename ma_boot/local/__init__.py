"""The rehearsal: a stand-in for ModelArts, on one machine, around the same boot."""
