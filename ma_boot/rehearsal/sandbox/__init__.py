"""A node in a mount namespace of its own, by bubblewrap."""

from ma_boot.rehearsal.sandbox.bubblewrap import check_installed, is_installed, sandboxed

__all__ = ["check_installed", "is_installed", "sandboxed"]
