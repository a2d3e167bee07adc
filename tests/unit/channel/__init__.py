"""Root cause of a job: the first failure of several."""
