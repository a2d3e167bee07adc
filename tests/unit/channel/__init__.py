"""Which failure of a job was the first one."""
