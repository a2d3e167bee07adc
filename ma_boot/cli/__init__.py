"""The command line: one module per command; each parses, refuses and helps."""

from ma_boot.lean_imports import import_click

import_click()  # before any module of this room does
