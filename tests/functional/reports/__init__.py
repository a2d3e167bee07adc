"""Reports on failed jobs: evidence in logs of CANN, and what `ma_boot report` makes of log directories."""
