"""Messages between the nodes of a job, authenticated by the job's token."""
