"""Boots one node of a job: the phases in their order, from the boot command to the exit code."""
