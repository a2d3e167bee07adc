"""The command line: one module per command; each parses, refuses and helps."""

import ma_boot.lean_click  # noqa: F401 -- before any module of this room imports click
