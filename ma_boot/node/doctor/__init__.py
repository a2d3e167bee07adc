"""`ma_boot doctor`: checks this container before a job does; each finding has evidence and a remedy."""
