"""The multipart uploads that earlier, killed runs of an output left."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Iterator, List, Sequence

from path_mapping.errors import StoreError
from path_mapping.localfs import printable
from path_mapping.mapping import Route
from path_mapping.planning import BegunUploads
from path_mapping.stores import MultipartStore, Store
from path_mapping.workers import retrying


@contextmanager
def unfinished_uploads(routes: Sequence[Route], base: Path) -> Iterator[List[BegunUploads]]:
    """The unfinished multipart uploads of each route: this process is their only owner in the block."""
    found: List[BegunUploads] = []
    try:
        for route in routes:
            found.append(BegunUploads(route.path(base), f"upload {route.remote}"))
        yield found
    finally:
        for uploads in found:
            uploads.close()


def abort_left(uploads: Sequence[BegunUploads], store: Store, cancel: threading.Event) -> Iterator[str]:
    """Aborts what earlier runs left and no file of this one needed; yields a notice for each."""
    if not isinstance(store, MultipartStore):
        return
    for of_route in uploads:
        for one in of_route.left():
            url = f"obs://{one.bucket}/{printable(one.key)}"
            try:
                retrying(partial(store.abort_parts, *one), cancel)
            except StoreError as error:
                yield f"the unfinished upload of {url} by an earlier run could not be aborted: {error}"
                continue
            of_route.ended(one.upload)
            yield f"the unfinished upload of {url} by an earlier run was aborted"
