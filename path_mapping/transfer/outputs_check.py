"""Whether the outputs can be uploaded, which is worth knowing before hours of training."""

from __future__ import annotations

import threading
from functools import partial
from typing import List, Sequence

from path_mapping.errors import Refused
from path_mapping.mapping import Route
from path_mapping.stores import MultipartStore, Store
from path_mapping.workers import RetryPolicy, retrying

LONGEST_LOOK = 60.0  # seconds without an answer: the training must not wait for longer


def check_outputs(routes: Sequence[Route], store: Store, cancel: threading.Event, seconds: float) -> None:
    """Lists the target of each output, and tries to write there; no object is made or changed.

    A refused listing is no error if the write is permitted: all files are uploaded then. A directory in the
    place of OBS is not checked. A failing request is retried for `seconds`, but for a minute at most.

    Raises:
        NotFound: there is no such bucket.
        Refused: the credentials are wrong, or do not permit to write.
        Unreachable: OBS does not answer.
        Cancelled: `cancel` is set.
    """
    if not isinstance(store, MultipartStore):
        return
    patience = RetryPolicy(min(seconds, LONGEST_LOOK))
    for bucket, key in dict.fromkeys((route.remote.bucket, route.remote.key) for route in routes):
        refused: List[Refused] = []
        try:
            retrying(partial(_list_one, store, bucket, key), cancel, patience)
        except Refused as error:
            refused.append(error)
        below = f"{key}.ma_boot" if not key or key.endswith("/") else f"{key}/.ma_boot"
        for name in dict.fromkeys((below, key or below)):  # a policy may permit one file, or a directory
            if name.endswith("/"):
                continue
            try:
                retrying(partial(store.try_write, bucket, name), cancel, patience)
                break
            except Refused as error:
                refused.append(error)
        else:
            raise refused[0]


def _list_one(store: Store, bucket: str, key: str) -> None:
    next(store.list(bucket, key), None)
