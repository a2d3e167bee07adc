"""`ma_boot checkpoint ...`: the checkpoint sets in OBS, by hand."""

from ma_boot.cli.checkpoint.commands import checkpoint as checkpoint
