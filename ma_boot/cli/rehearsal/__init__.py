"""`ma_boot rehearsal ...`: the rehearsals that are kept on this machine."""

from ma_boot.cli.rehearsal.kept import rehearsal as rehearsal
