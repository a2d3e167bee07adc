"""The rehearsals that are kept on this machine: which there are, and which may go."""

from ma_boot.rehearsal.kept.kept import KEEP, KeptRehearsal, kept_in, marked, named, pruned, remove

__all__ = ["KEEP", "KeptRehearsal", "kept_in", "marked", "named", "pruned", "remove"]
