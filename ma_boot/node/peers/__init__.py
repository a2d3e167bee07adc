"""The other nodes of a job: messaging, failures and the root cause, restarts in place, shared uploads."""
