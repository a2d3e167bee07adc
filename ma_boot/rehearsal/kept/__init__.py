"""The rehearsals that are kept on this machine: which there are, and which may go."""

from ma_boot.rehearsal.kept.kept import (
    KEEP as KEEP,
    KeptRehearsal as KeptRehearsal,
    kept_in as kept_in,
    named as named,
    pruned as pruned,
    remove as remove,
    sandbox as sandbox,
)
