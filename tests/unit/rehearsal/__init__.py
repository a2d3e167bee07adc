"""The simulated job, its faults and its OBS."""
