"""The store of a training process, as its environment names it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Dict, Optional, cast

from path_mapping.mox.retried_store import RetriedStore
from path_mapping.stores import open_store

OBS_ROOT = "PATH_MAPPING_OBS_ROOT"  # a directory that stands in for OBS, in a rehearsal

_local = threading.local()
_settings: Dict[str, str] = {}


def set_auth(
    ak: Optional[str] = None,
    sk: Optional[str] = None,
    server: Optional[str] = None,
    port: Optional[int] = None,
    is_secure: bool = True,
    **_: Any,
) -> None:
    """Sets the credentials and the server for this process; what is not given comes from the environment."""
    given = {"OBS_ACCESS_KEY_ID": ak, "OBS_SECRET_ACCESS_KEY": sk}
    if server is not None:
        host = server.partition("://")[2] or server
        given["OBS_ENDPOINT"] = f"{'https' if is_secure else 'http'}://{host}" + (f":{port}" if port else "")
    _settings.update({name: value for name, value in given.items() if value is not None})
    _local.__dict__.clear()


def store() -> RetriedStore:
    """This thread's store: the directory PATH_MAPPING_OBS_ROOT, or OBS with the environment's credentials.

    Its requests are retried; `store().store` is the one for transfers, which retry by themselves.

    Each process and thread has its own, because the SDK's connections must not be shared after a fork.

    Raises:
        CredentialsMissing: the environment names neither.
    """
    if getattr(_local, "owner", None) != os.getpid():
        environ = {**os.environ, **_settings}
        root = environ.get(OBS_ROOT)
        _local.store = RetriedStore(open_store(environ, Path(root) if root else None))
        _local.owner = os.getpid()
    return cast(RetriedStore, _local.store)
