"""The store of a training process, as its environment names it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Dict, Optional, cast

from path_mapping.stores import open_store
from path_mapping.workers import RetriedStore

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
    """Sets the credentials and the server for all threads of this process.

    What is not given comes from the environment; with keys that are given, neither its token nor its file of
    credentials is used.
    """
    global _local
    given = {"OBS_ACCESS_KEY_ID": ak, "OBS_SECRET_ACCESS_KEY": sk}
    if server is not None:
        host = server.partition("://")[2] or server
        given["OBS_ENDPOINT"] = f"{'https' if is_secure else 'http'}://{host}" + (f":{port}" if port else "")
    if ak is not None or sk is not None:
        given.update(OBS_SECURITY_TOKEN="", OBS_CREDENTIALS_FILE="")
    _settings.update({name: value for name, value in given.items() if value is not None})
    _local = threading.local()


def store() -> RetriedStore:
    """This thread's store: the directory PATH_MAPPING_OBS_ROOT, or OBS with the environment's credentials.

    Its requests are retried; `store().store` is the one for transfers, which retry by themselves.

    Each process and thread has its own, because the SDK's connections must not be shared after a fork.

    Raises:
        CredentialsMissing: the environment names neither.
    """
    local = _local  # as `set_auth` may replace it now
    if getattr(local, "owner", None) != os.getpid():
        environ = {name: value for name, value in {**os.environ, **_settings}.items() if value}
        root = environ.get(OBS_ROOT)
        local.store = RetriedStore(open_store(environ, Path(root) if root else None))
        local.owner = os.getpid()
    return cast(RetriedStore, local.store)
