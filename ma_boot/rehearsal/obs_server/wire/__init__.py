"""HTTP as OBS speaks it: requests, signatures, answers, faults."""
