"""Moves one file, whatever is at its target: by the engine of the transfers, without a plan and a record."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Callable, List

from path_mapping.mapping import ObsUrl, Route
from path_mapping.planning import Copy
from path_mapping.stores import FileStore, MultipartStore, ObjectState
from path_mapping.transfer.download_jobs import LargeDownload, SmallDownload
from path_mapping.transfer.jobs import Job, LargeUpload, SmallUpload
from path_mapping.transfer.left_uploads import unfinished_uploads
from path_mapping.transfer.moving import StoreAccess, Work, move_files
from path_mapping.transfer.parts import RANGES_FROM


def download_file(store: FileStore, bucket: str, key: str, found: ObjectState, local: Path) -> None:
    """Downloads an object, completely or not at all.

    Raises:
        StoreError: it failed, also after retries.
        OSError: the disk failed.
    """
    via = StoreAccess(store)
    etag, ranges_from = (found.version, RANGES_FROM) if via.access is not None else ("", sys.maxsize)

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        kind = LargeDownload if copy.size > ranges_from else SmallDownload
        return kind(copy, number, lambda by_length: None)

    _move(Copy(os.fspath(local), os.fspath(local.parent), bucket, key, found.size, etag), job, via)


def upload_file(store: FileStore, local: Path, bucket: str, key: str) -> None:
    """Uploads a file, completely or not at all. Raises what `download_file` raises."""
    via, status = StoreAccess(store), os.stat(local)
    route = Route(os.fspath(local), ObsUrl(bucket, key))

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        if isinstance(store, MultipartStore) and copy.size >= store.multipart_from:
            return LargeUpload(copy, number, store.part, True, False, uploads, lambda by_length: None)
        return SmallUpload(copy, number, True, False, lambda by_length: None)

    with unfinished_uploads([route], local.parent) as (uploads,):
        _move(
            Copy(
                os.fspath(local),
                os.fspath(local.parent),
                bucket,
                key,
                status.st_size,
                mtime_ns=status.st_mtime_ns,
            ),
            job,
            via,
        )


def _move(copy: Copy, job: Callable[[Copy, Callable[[], int]], Job], via: StoreAccess) -> None:
    failures: List[Exception] = []
    work = Work(
        iter([copy]),
        1,
        copy.size,
        job,
        lambda done: None,
        lambda failed, error: failures.append(error),
    )
    move_files(work, via, threading.Event(), lambda now: None)
    if failures:
        raise failures[0]
