"""The job as a value: read from a job file or from options, checked, and turned into a request. Pure."""
