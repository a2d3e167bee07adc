"""`moxing.framework`, of which only `file` exists here."""

import importlib
import sys


def __getattr__(name):
    """Loads `file` on demand: `import moxing.framework as mox`."""
    if name != "file":
        return getattr(sys.modules["moxing"], "framework." + name)  # raises the error of all names
    return importlib.import_module("moxing.framework.file")
