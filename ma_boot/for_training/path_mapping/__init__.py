"""The real `path_mapping`, for training code, as `ma_boot` beside it."""

import os

_SITE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
__path__ = [os.path.join(_SITE, "path_mapping")]


def __getattr__(name):
    """`mox.file`, as in the real one."""
    if name != "file":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("path_mapping.file")
