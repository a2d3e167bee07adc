"""The store of a training process, by its environment."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Dict, cast

from path_mapping.stores import FileStore, open_store

OBS_ROOT = "PATH_MAPPING_OBS_ROOT"  # a directory that stands for OBS, in a rehearsal

_local = threading.local()
_settings: Dict[str, str] = {}


def use(**settings: str) -> None:
    """Sets variables of the environment anew for this process, as OBS_ENDPOINT or OBS_ACCESS_KEY_ID."""
    _settings.update(settings)
    _local.__dict__.clear()


def store() -> FileStore:
    """This thread's store: OBS by the environment's credentials, or the directory PATH_MAPPING_OBS_ROOT.

    Each process and thread has its own: the SDK's connections must not be shared after a fork.
    """
    if getattr(_local, "owner", None) != os.getpid():
        environ = {**os.environ, **_settings}
        root = environ.get(OBS_ROOT)
        _local.store = open_store(environ, Path(root) if root else None)
        _local.owner = os.getpid()
    return cast(FileStore, _local.store)
