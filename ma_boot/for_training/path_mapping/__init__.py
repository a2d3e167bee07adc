"""The real `path_mapping`, importable by training code without the other packages of the toolkit."""

import os

_SITE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
__path__ = [os.path.join(_SITE, "path_mapping")]


def __getattr__(name):
    """Loads `file` on demand for `import path_mapping as mox`, as the real package does."""
    if name != "file":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("path_mapping.file")
