"""A compile cache in OBS and on the disk of one node.

In OBS, each key has a directory with the records of checkpoints: immutable objects below the directory of an
attempt, and a manifest that is written last. So a cache is there completely or not at all.

    URL/KEY/attempt-000002-9c41/torchinductor/...                                the files
    URL/KEY/.ma_boot/manifests/999997-9c41/.../part-00000-of-00001.json          the manifest

Each start that publishes is an attempt, with one step whose versions replace each other. Node 0 is the only
writer. A manifest is not trusted: its paths, sizes and checksums decide what is written here.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.caches.cache_files import CacheFiles, list_cache, too_large
from ma_boot.node.caches.options import cache_options_of
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.disk import Snapshot, content_crc
from ma_boot.node.checkpoints.downloads.verified_files import VerifiedFiles
from ma_boot.node.checkpoints.layouts.layout import TrainingStep
from ma_boot.node.checkpoints.options import CheckpointOptions
from ma_boot.node.checkpoints.part_upload import PartUploads
from ma_boot.node.checkpoints.publishing import PublishedStep
from ma_boot.node.checkpoints.records.documents import Documents, read_checkpoints
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, Place
from ma_boot.node.checkpoints.records.manifest import Checkpoint, CheckpointFile, Part
from ma_boot.node.checkpoints.records.retention import find_superfluous, finish_removals, remove_checkpoint
from ma_boot.node.checkpoints.steps import TakenStep
from path_mapping.errors import printable
from path_mapping.localfs.source_file import FileChanged, FileState
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.store import Store
from path_mapping.transfer.scheduler import Progress
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Published caches that are tried, the newest first, before the job starts cold.
MOST_TRIED = 3
# Seconds by the store's clock; files without a manifest are removed after that: their writer was killed.
SPARED_SECONDS = 3600.0
# Objects that one search for files without a manifest lists.
MOST_LISTED = 100_000


class Restored(NamedTuple):
    """The cache that a start has found, its files and bytes; `downloaded` of the files were not here.

    `attempt` of `job` has published it.
    """

    files: int = 0
    size: int = 0
    downloaded: int = 0
    attempt: str = ""
    job: str = ""


class Published(NamedTuple):
    """A published cache: all files and bytes, of which `new` files were compiled in this start."""

    files: int
    size: int
    new: int


@dataclass(frozen=True)
class CacheTarget:
    """The cache of a mapping for this `key` (see `cache_key`), as `job` uses it.

    The relative local path of `route` starts at `base`. `say` prints a warning.
    """

    route: Route
    base: Path
    store: Store
    key: str
    job: str
    say: Callable[[str], None]

    @property
    def root(self) -> Path:
        """Local directory; each key has its own, so that no start publishes what other code has left."""
        return self.route.path(self.base) / self.key

    @property
    def place(self) -> Place:
        """Location in OBS."""
        return Place(self.route.remote.bucket, f"{self.route.remote.prefix}{self.key}/")

    @property
    def layout(self) -> str:
        """Name in manifests: that of a cache with another key, or of a checkpoint, is refused."""
        return f"compile-cache {self.key}"


class CompileCache:
    """The compile cache of one start. `restore` comes before the training; `publish` on node 0 only."""

    def __init__(self, target: CacheTarget) -> None:
        self.target = target
        self.options = cache_options_of(target.route)
        self._attempt: Attempt | None = None
        self._published: tuple[PublishedStep, ...] = ()
        # Counts the tries too: a manifest whose upload failed may be there.
        self._version = 0
        # Files that are in OBS, with their states here.
        self._known: dict[str, tuple[CheckpointFile, FileState]] = {}
        self._uploads: PartUploads | None = None

    def restore(
        self, cancel: threading.Event, patience: RetryPolicy, progress: Callable[[Progress], None]
    ) -> Restored:
        """Puts the newest usable cache in place.

        Raises `StoreError`, `UnsafeTarget`, `OSError`, `NoSpace` and `Cancelled`.
        """
        target, documents = self.target, self._documents(cancel, patience)
        for row in islice(read_checkpoints(documents), MOST_TRIED):
            try:
                if row.checkpoint is None:
                    raise CheckpointDamaged(row.why)
                return self._restore(row.checkpoint, documents, progress)
            except CheckpointDamaged as error:
                target.say(f"compile cache: {row.listed.name.attempt} in {target.place} is not used: {error}")
        return Restored()

    def _restore(
        self, cache: Checkpoint, documents: Documents, progress: Callable[[Progress], None]
    ) -> Restored:
        """Puts a cache in place; raises `CheckpointDamaged` if its manifest or a file of it is refused."""
        wanted = cache.files_of(None)
        if cache.layout != self.target.layout:
            raise CheckpointDamaged("it is the cache of other code or software")
        problem = too_large(len(wanted), sum(file.size for file in wanted), self.options)
        if problem:
            raise CheckpointDamaged(problem)
        root = self.target.root
        files = VerifiedFiles(root, documents, progress)
        here = list_cache(root, self.options).files
        missing = [file for file in wanted if file.path not in here or not files.has(file)]
        try:
            files.fetch(missing)
            files.move_in(file.path for file in missing)
        finally:
            files.close()
        now = list_cache(root, self.options).files
        self._known = {file.path: (file, now[file.path]) for file in wanted if file.path in now}
        job = cache.parts[0].member.job
        return Restored(len(wanted), cache.size, len(missing), str(cache.name.attempt), printable(job))

    def list_files(self) -> CacheFiles:
        """Lists the files that are here. Raises `OSError`."""
        return list_cache(self.target.root, self.options)

    def new_files(self, here: CacheFiles) -> list[str]:
        """Returns the files that are not in OBS with their present content. Raises `OSError`."""
        return [path for path, state in here.files.items() if not self._is_known(path, state)]

    def _is_known(self, path: str, state: FileState) -> bool:
        if path not in self._known:
            return False
        file, then = self._known[path]
        if state == then:
            return True
        if state.size != file.size:
            return False
        try:
            same = content_crc(self.target.root / path, lambda: None) == file.crc64
        except FileNotFoundError:
            return True
        if same:
            self._known[path] = (file, state)
        return same

    def publish(self, cancel: threading.Event, patience: RetryPolicy) -> Published | None:
        """Publishes the cache, and removes superseded ones; returns None if nothing is new.

        Raises `FileChanged` if a compiler is still writing, `CheckpointDamaged` if the cache is over its
        bounds, `TransferFailed`, `StoreError`, `OSError` and `Cancelled`.
        """
        target, documents = self.target, self._documents(cancel, patience)
        here = self.list_files()
        new = self.new_files(here)
        if not new:
            return None
        problem = here.over_bounds(self.options)
        if problem:
            raise CheckpointDamaged(problem)
        finish_removals(documents)
        attempt = self._attempt = self._attempt or self._next_attempt(documents)
        self._version += 1
        name = CheckpointName(attempt, 0, self._version)
        taken = TakenStep(TrainingStep(0, "0"), name.version, False, here.files)
        # Compilers write a file under another name first, so the files themselves are the snapshot.
        snapshot = Snapshot(taken, target.root, here.files, linked=True, in_place=True)
        route = self._route()
        self._uploads = self._uploads or PartUploads(route, attempt)
        try:
            files = self._uploads.upload(snapshot, documents, self._published)
        except FileChanged:
            self._uploads.release_keys(snapshot)
            raise
        finally:
            self._uploads.forget(snapshot)
        part = Part(name, "0", route.member, target.layout, files)
        documents.write(target.place.part(part.key), part.document())
        self._published = (*self._published, PublishedStep(taken, part))
        self._known = {file.path: (file, here.files[file.path]) for file in files}
        self._remove_superseded(documents, part)
        return Published(len(files), here.size, len(new))

    def _next_attempt(self, documents: Documents) -> Attempt:
        newest = next(documents.list_checkpoints(), None)
        return Attempt(1 if newest is None else newest.name.attempt.number + 1, secrets.token_hex(4))

    def _route(self) -> CheckpointRoute:
        """Returns the target as the uploads of checkpoints need it: one saver, without a node in the keys."""
        target, place = self.target, self.target.place
        return CheckpointRoute(
            route=target.route._replace(local=str(target.root), remote=ObsUrl(place.bucket, place.prefix)),
            options=CheckpointOptions((target.layout,), keep=self.options.keep),
            base=target.base,
            store=target.store,
            member=JobMember(0, 1, job=target.job),
            say=target.say,
            report=lambda step, files, size, seconds: None,
        )

    def _remove_superseded(self, documents: Documents, published: Part) -> None:
        """Removes caches beyond `keep`, and files of attempts that were killed before their manifest."""
        listed = list(documents.list_checkpoints())
        for cache in find_superfluous(listed, self.options.keep, spared=()).all:
            remove_checkpoint(documents, cache, listed)
        stored = documents.find(documents.place.part(published.key))
        now = stored.mtime_ns / 1e9 if stored is not None else 0.0
        complete = {cache.name.attempt for cache in listed}
        for found in list(islice(documents.objects(f"{documents.place.prefix}attempt-"), MOST_LISTED)):
            attempt = documents.place.attempt_of_file(found.key)
            is_left = attempt is not None and attempt not in complete
            state = documents.find(found.key) if is_left else None
            if state is not None and state.mtime_ns / 1e9 < now - SPARED_SECONDS:
                documents.delete(found.key)

    def _documents(self, cancel: threading.Event, patience: RetryPolicy) -> Documents:
        return Documents(RetriedStore(self.target.store, cancel, patience), self.target.place)
