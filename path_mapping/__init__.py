"""Moves files between local paths and OBS by a path mapping; knows nothing of ma_boot.

`import path_mapping as mox` gives scripts that were written for MoXing their `mox.file`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Loads `file` when it is first used: moving files by a mapping does not need it."""
    if name != "file":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("path_mapping.file")
