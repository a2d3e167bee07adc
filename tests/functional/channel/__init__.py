"""The channel between the nodes of a job, with real sockets."""
