"""The job and the machine, as the platform describes them."""
