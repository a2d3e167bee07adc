"""A node in a mount namespace of its own, by bubblewrap."""

from ma_boot.rehearsal.sandbox.bubblewrap import (
    check_installed as check_installed,
    is_installed as is_installed,
    sandboxed as sandboxed,
)
