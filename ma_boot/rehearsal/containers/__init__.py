"""Containers of the job's own image, on a container engine."""
