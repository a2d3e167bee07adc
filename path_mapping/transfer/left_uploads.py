"""Checks of output targets: permission to write, and unfinished multipart uploads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from path_mapping.errors import Refused, StoreError, printable
from path_mapping.mapping.routes import Route
from path_mapping.planning.record import BegunUpload, BegunUploads, noted_uploads
from path_mapping.stores.store import Store, UnfinishedUpload
from path_mapping.workers.retry import RetriedStore, RetryPolicy

ABORT, KEEP = "abort", "keep"
# Seconds without an answer, after which the check fails: the training waits for it.
LONGEST_CHECK = 60.0


@contextmanager
def unfinished_uploads(routes: Sequence[Route], base: Path) -> Iterator[list[BegunUploads]]:
    """Takes over the unfinished multipart uploads of each route; this process owns them in the block."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(BegunUploads(route.path(base), f"upload {route.remote}")))
            for route in routes
        ]


def abort_left(uploads: Sequence[BegunUploads], store: RetriedStore) -> Iterator[str]:
    """Aborts uploads that earlier runs left and this one did not resume; yields a notice for each."""
    for of_route in uploads:
        for upload in of_route.left():
            error = _abort(of_route, store, upload)
            end = f"could not be aborted: {error}" if error is not None else "was aborted"
            url = f"obs://{upload.bucket}/{printable(upload.key)}"
            yield f"the unfinished upload of {url} by an earlier run {end}"


def _abort(uploads: BegunUploads, store: RetriedStore, upload: BegunUpload) -> StoreError | None:
    """Aborts an upload, and removes its note; returns the error if that failed."""
    try:
        store.abort_parts(*upload)
    except StoreError as error:
        return error
    uploads.ended(upload.upload)
    return None


class LeftUpload(NamedTuple):
    """A multipart upload below an output's URL, with the `action` (abort or keep) and its reason.

    `name` is the part of the key below the output's URL; `began` is in seconds since the epoch, 0 if unknown.
    `own`: a killed run of this output has noted it here.
    """

    action: str
    name: str
    key: str
    upload: str
    began: float
    reason: str
    own: bool = False


def left_uploads(route: Route, base: Path, store: RetriedStore, older_than: float) -> Iterator[LeftUpload]:
    """Yields the multipart uploads below an output's URL, in the order of their keys; changes nothing.

    Uploads that killed runs of this output have noted here are to be aborted, and those of other clients that
    began `older_than` seconds ago, or more. Uploads of a living process here are always kept. Without the
    permission to list uploads, those that are noted here are yielded. Raises `StoreError` if the listing
    fails otherwise.
    """
    noted = noted_uploads(route.path(base), f"upload {route.remote}")
    own = {mine.upload: mine for mine in noted.left}
    now, (bucket, key), below = time.time(), route.remote, route.remote.prefix
    try:
        listed = store.retrying(lambda: list(store.store.unfinished(bucket, key)))
    except Refused:
        if not own or older_than < math.inf:
            raise
        listed = [UnfinishedUpload(mine.key, mine.upload, 0.0) for mine in own.values()]
    for upload in listed:
        name = upload.key[len(below) :] if upload.key.startswith(below) else upload.key.rpartition("/")[2]
        if upload.key != key and not upload.key.startswith(below):
            continue
        if upload.upload in own:
            action, reason = ABORT, "an earlier run here"
        elif upload.upload in noted.used:
            action, reason = KEEP, "a process here that still runs"
        else:
            is_old = bool(upload.began) and now - upload.began >= older_than
            action, reason = ABORT if is_old else KEEP, "another process or node"
        yield LeftUpload(action, name, *upload, reason=reason, own=upload.upload in own)


def abort_uploads(
    route: Route, base: Path, store: RetriedStore, wanted: Sequence[LeftUpload]
) -> Iterator[tuple[LeftUpload, StoreError | None]]:
    """Aborts the `wanted` uploads whose action is abort; yields each with the error if that failed.

    An upload that another run of this output has taken over meanwhile is kept. Notes of uploads that no
    longer exist are removed.
    """
    with unfinished_uploads([route], base) as (uploads,):
        taken = {upload.upload for upload in uploads.left()}
        for upload in wanted:
            if upload.action != ABORT or (upload.own and upload.upload not in taken):
                yield upload._replace(action=KEEP), None
                continue
            begun = BegunUpload(route.remote.bucket, upload.key, upload.upload)
            yield upload, _abort(uploads, store, begun)
        for gone in taken - {upload.upload for upload in wanted}:
            uploads.ended(gone)


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
    if store.signer is None:
        return
    to = RetriedStore(store, cancel, RetryPolicy(min(seconds, LONGEST_CHECK)))
    for url in dict.fromkeys(route.remote for route in routes):
        refused: list[Refused] = []
        try:
            next(to.list(*url), None)
        except Refused as error:
            refused.append(error)
        below = f"{url.prefix}.ma_boot"
        for name in dict.fromkeys((below, url.key or below)):  # a policy may permit one file, or a directory
            if name.endswith("/"):
                continue
            try:
                to.retrying(partial(store.try_write, url.bucket, name))
                break
            except Refused as error:
                refused.append(error)
        else:
            raise refused[0]
