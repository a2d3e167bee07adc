"""Downloads of files that a manifest names: verified before any of them is moved into its place.

DIR/.ma_boot/restoring/...   downloads
DIR/...                      their places
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Callable

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.disk import content_crc, inside
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.manifest import CheckpointFile
from path_mapping.errors import Corrupted, NoSpace, NotFound, Replaced, printable
from path_mapping.localfs.atomic_file import check_contained, make_directories
from path_mapping.planning.local_tree import SpaceNeed, free_space, local_entry, shortages
from path_mapping.stores.objects import Copy
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import FailedCopy, fetch_files
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Seconds for which a download is retried before the object is checked for damage, which retries do not
# repair.
AT_ONCE = 1.0


class VerifiedFiles:
    """Files of manifests at the place of `documents`, for the directory `root`."""

    def __init__(self, root: Path, documents: Documents, progress: Callable[[Progress], None]) -> None:
        self._root = root
        self._documents = documents
        self._progress = progress
        self._scratch = inside(root, "restoring")

    def has(self, file: CheckpointFile) -> bool:
        """Returns whether a file is in its place, with the size and checksum of the manifest."""
        return self._is(self._root / file.path, file)

    def fetch(self, wanted: Sequence[CheckpointFile]) -> tuple[int, int]:
        """Downloads and verifies files, beside their places; reuses downloads of an interrupted run.

        Returns the files and bytes downloaded. Raises `CheckpointDamaged`, `StoreError`, `NoSpace`, `OSError`
        and `Cancelled`.
        """
        scratch, place = self._scratch, self._documents.place
        # A store without requests, a directory, has no ETags that could be compared at the download.
        has_etags = self._documents.to.store.signer is not None
        copies = []
        for file in wanted:
            path, key = scratch / file.path, place.prefix + file.key
            if not self._is(path, file):
                etag = f'"{file.etag}"' if file.etag and has_etags else ""
                copies.append(Copy(str(path), str(scratch), place.bucket, key=key, size=file.size, etag=etag))
        if not copies:
            return 0, 0
        need = SpaceNeed()
        for copy in copies:
            need = need.plus(copy.size, None)
        short = shortages({self._root: need}, {self._root: free_space(self._root)})
        if short:
            raise NoSpace(short)
        make_directories(scratch)
        self._download(copies)
        for file in wanted:
            path = scratch / file.path
            if not self._is(path, file):
                path.unlink()
                url = printable(f"{place}{file.key}")
                raise CheckpointDamaged(f"{url}: its content is not the one that was published")
        return len(copies), sum(copy.size for copy in copies)

    def move_in(self, paths: Iterable[str]) -> None:
        """Moves downloaded files into their places. Raises `UnsafeTarget` for a link that leads out."""
        for path in paths:
            check_contained(self._root / path, self._root)
            make_directories((self._root / path).parent)
            os.rename(self._scratch / path, self._root / path)

    def close(self) -> None:
        """Removes what was downloaded and not moved."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        with suppress(OSError):  # not empty
            os.rmdir(self._scratch.parent)

    def _is(self, path: Path, file: CheckpointFile) -> bool:
        """Returns whether a file has the size and checksum of the manifest."""
        local = local_entry(path)
        if local is None or local.file_size != file.size:
            return False
        try:
            return content_crc(path, self._documents.to.check) == file.crc64
        except OSError:
            return False

    def _download(self, copies: Sequence[Copy]) -> None:
        """Downloads files; looks for damage after a second of retries, and only then retries patiently."""
        patient = self._documents.to
        for to in (RetriedStore(patient.store, patient.cancel, RetryPolicy(AT_ONCE)), patient):
            failures = fetch_files(copies, to, self._progress).failed
            for failed in failures:
                self._judge(failed)
            if not failures:
                return
            copies = [failed.copy for failed in failures]
        raise failures[0].error

    def _judge(self, failed: FailedCopy) -> None:
        """Raises `CheckpointDamaged` if the object is damaged, and the error is not one of the network."""
        copy, error = failed
        url = printable(copy.url)
        if isinstance(error, NotFound):
            raise CheckpointDamaged(f"{url} is gone") from error
        if isinstance(error, Replaced):
            raise CheckpointDamaged(f"{url} was replaced") from error
        if isinstance(error, Corrupted):
            raise CheckpointDamaged(str(error)) from error
        stored = self._documents.to.store.find(copy.bucket, copy.key)
        if stored is None:
            raise CheckpointDamaged(f"{url} is gone") from error
        if stored.size != copy.size:
            raise CheckpointDamaged(f"{url} has {stored.size} bytes, expected {copy.size}") from error
        if copy.etag and stored.version.strip('"') != copy.etag.strip('"'):
            raise CheckpointDamaged(f"{url} was replaced") from error
