"""Uploads the files of a node's part of a step, each under a key of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import count

from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.disk import Snapshot, content_crc
from ma_boot.node.checkpoints.publishing import PublishedStep
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.keys import Attempt, data_name
from ma_boot.node.checkpoints.records.manifest import CheckpointFile
from path_mapping.errors import Failure, TransferFailed
from path_mapping.localfs.names import shown
from path_mapping.localfs.source_file import FileChanged
from path_mapping.planning.plan import unquote_etag
from path_mapping.stores.objects import Copy
from path_mapping.transfer.transfer import send_files


class PartUploads:
    """The uploads of one attempt. A repeated upload of a snapshot continues with the missing files."""

    def __init__(self, target: CheckpointRoute, attempt: Attempt) -> None:
        self._target = target
        self._attempt = attempt
        self._uploaded: dict[tuple[Snapshot, str], CheckpointFile] = {}
        # The snapshot whose upload has used each key.
        self._owners: dict[str, Snapshot] = {}

    def upload(
        self, snapshot: Snapshot, documents: Documents, earlier: Iterable[PublishedStep]
    ) -> tuple[CheckpointFile, ...]:
        """Returns the files of a step in OBS: unchanged ones of `earlier` versions, and the uploaded rest.

        Raises `FileChanged` if a file has changed since the snapshot, `TransferFailed`, `StoreError`,
        `OSError` and `Cancelled`.
        """
        taken, place = snapshot.taken, self._target.place
        snapshot.check()
        known = {
            file.path: file
            for before in earlier
            for file in before.part.files
            if before.taken.files.get(file.path) == taken.files.get(file.path)
        }
        wanted = [
            path for path in taken.files if path not in known and (snapshot, path) not in self._uploaded
        ]
        crcs = {path: self._crc(snapshot, path, documents) for path in wanted}
        copies = [self._copy(snapshot, path) for path in wanted]
        route = self._target.route
        moved = send_files(
            copies, documents.to, route, base=self._target.base, checked=route.checksum, settled=True
        )
        for copy in moved.done:
            path = os.path.relpath(copy.path, snapshot.directory)
            key, etag = copy.key[len(place.prefix) :], unquote_etag(copy.etag)
            file = CheckpointFile(path, key, copy.size, crc64=crcs[path], etag=etag)
            self._uploaded[snapshot, path] = file
        if any(isinstance(failed.error, (FileChanged, FileNotFoundError)) for failed in moved.failed):
            raise FileChanged(f"step {taken.step.name} changed")
        if moved.failed:
            raise TransferFailed(
                [Failure(shown(failed.copy.local), failed.copy.url, failed.error) for failed in moved.failed],
                len(moved.done),
            )
        # A linked file may have been written in place: the times of files are too coarse to show each write.
        if snapshot.linked:
            for path in wanted:
                if self._crc(snapshot, path, documents) != crcs[path]:
                    raise FileChanged(f"{path} was written to while it was uploaded")
            snapshot.check()
        return tuple(known.get(path) or self._uploaded[snapshot, path] for path in taken.files)

    def release_keys(self, snapshot: Snapshot) -> None:
        """Allows other snapshots to use the keys of this one, which no manifest names."""
        self._owners = {key: owner for key, owner in self._owners.items() if owner is not snapshot}

    def forget(self, snapshot: Snapshot) -> None:
        """Forgets the uploaded files of a snapshot that is published or given up."""
        self._uploaded = {key: file for key, file in self._uploaded.items() if key[0] is not snapshot}

    def _copy(self, snapshot: Snapshot, path: str) -> Copy:
        place, state = self._target.place, snapshot.files[path]
        return Copy(
            path=os.fspath(snapshot.directory / path),
            root=os.fspath(snapshot.directory),
            bucket=place.bucket,
            key=place.prefix + self._free_key(snapshot, path),
            size=state.size,
            mtime_ns=state.mtime_ns,
        )

    def _free_key(self, snapshot: Snapshot, path: str) -> str:
        """Returns the first key for a path that no other snapshot has used.

        Files of several steps may have one path: `best.pt`, or a step that is saved again.
        """
        member = self._target.member
        keys = (data_name(self._attempt, copy, member.node, member.nodes, path) for copy in count(1))
        return next(key for key in keys if self._owners.setdefault(key, snapshot) is snapshot)

    def _crc(self, snapshot: Snapshot, path: str, documents: Documents) -> int:
        try:
            return content_crc(snapshot.directory / path, documents.to.check)
        except FileNotFoundError as error:
            raise FileChanged(f"{path} was removed") from error
