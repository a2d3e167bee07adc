"""`ma_boot job ...`: the job on ModelArts, by the same file as its rehearsal."""

from ma_boot.cli.job.group import job as job
