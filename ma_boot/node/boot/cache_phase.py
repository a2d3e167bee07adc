"""The compile cache of a node: restored before its processes start, published while they run and at the end.

It never changes how a job ends: what fails is a warning, and the compilers start cold. The modules that move
files are imported only where the mapping has a cache.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ma_boot.errors import BootError, Stopped, described
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.environment.training_environment import TrainingEnvironment
from ma_boot.node.transfers.mapping import NodeTransfers
from ma_boot.node.transfers.progress import TransferProgress, cancel_and_wait
from ma_boot.processes.task import Task
from ma_boot.report.result import RunResult
from ma_boot.wording import Message, ProgressLine, size
from path_mapping.errors import PathMappingError

if TYPE_CHECKING:
    from ma_boot.node.caches.compile_cache import CompileCache, Restored

PHASE = "compile cache"
# Seconds; max. time to find and restore a cache, and to publish it after the training.
RESTORE_SECONDS = 180.0
PUBLISH_SECONDS = 120.0
# Seconds for which a failing request is retried: a cold start costs minutes, not hours.
RETRY_SECONDS = 20.0
# Seconds between two looks for new files while the training runs.
LOOK_SECONDS = 5.0
# Tries to publish while the training runs; the last one is at its end.
MOST_TRIES = 3


class OpenCache(NamedTuple):
    """The compile cache of this node's mapping, for the code and software of this start."""

    boot: Boot
    cache: CompileCache

    @property
    def is_writer(self) -> bool:
        """Returns whether this node publishes: one writer, so that no two nodes overwrite each other."""
        return self.boot.job.node_rank == 0


class NodeCache:
    """The compile cache of a node, without one for most jobs. Its methods raise nothing but `Stopped`."""

    def __init__(self, opened: OpenCache | None = None) -> None:
        self._opened = opened
        self._restored = 0
        self._compiled = 0
        self._published = 0
        # Held while the cache is published: an abandoned thread may still do so at the end.
        self._busy = threading.Lock()

    def restore(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Restores the cache; returns the variables by which the training finds it. Raises `Stopped`.

        `environ` are the training's: what the user has set there stays.
        """
        opened = self._opened
        if opened is None:
            return {}
        with opened.boot.journal.phase(PHASE) as phase:
            try:
                phase.detail = self._find(opened)
            except Stopped:
                raise
            except Exception as error:
                phase.detail = "the compilers start cold"
                opened.boot.journal.warn(f"compile cache: not restored: {_reason(error)}")
        return _make_directories(opened, environ)

    def _find(self, opened: OpenCache) -> str:
        """Restores the newest usable cache within `RESTORE_SECONDS`; returns a phrase for it."""
        from path_mapping.workers.retry import RetryPolicy

        inbox, journal, cache = opened.boot.inbox, opened.boot.journal, opened.cache
        progress = TransferProgress(PHASE, "download", journal)

        def work(cancel: threading.Event) -> Restored:
            with progress.shown() as update:
                return cache.restore(cancel, RetryPolicy(RETRY_SECONDS), update)

        task = Task(PHASE, work, inbox)
        try:
            if not task.wait(inbox.check, time.monotonic() + RESTORE_SECONDS, progress.say):
                raise TimeoutError(f"it took longer than {RESTORE_SECONDS:.0f} s")
            restored = task.result()
        finally:
            cancel_and_wait(task)
        self._restored = restored.files
        if not restored.files:
            return f"none for this code and software in {cache.target.place}"
        what = f"{restored.files} files, {size(restored.size)}, {restored.downloaded} of them downloaded"
        return f"{what}, published by {restored.job} ({restored.attempt})"

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publishes the cache while the block runs, once it has new files that have come to rest."""
        opened = self._opened
        if opened is None or not opened.is_writer:
            yield
            return
        with ExitStack() as running:
            # The container has a limit of threads.
            with opened.boot.journal.best_effort("compile cache: published at the end only"):
                task = Task(PHASE, partial(self._publish_at_rest, opened), opened.boot.inbox)
                running.callback(cancel_and_wait, task)
            yield

    def _publish_at_rest(self, opened: OpenCache, cancel: threading.Event) -> None:
        """Publishes the cache once it is at rest: after the first steps, in which all is compiled."""
        from path_mapping.errors import Cancelled
        from path_mapping.transfer.periodic import be_nice

        be_nice()
        cache, interval = opened.cache, opened.cache.options.interval
        seen, since, tries = None, time.monotonic(), 0
        while tries < MOST_TRIES and not self._published and not cancel.wait(min(LOOK_SECONDS, interval / 2)):
            try:
                here = cache.list_files()
                if here != seen:
                    seen, since = here, time.monotonic()
                elif time.monotonic() - since >= interval and cache.new_files(here):
                    self._publish(opened, cancel)
            except Cancelled:
                return
            # Any error: the next try may succeed.
            except Exception as error:
                tries, since = tries + 1, time.monotonic()
                opened.boot.journal.warn(f"compile cache: not published: {_reason(error)}")

    def _publish(self, opened: OpenCache, cancel: threading.Event) -> None:
        from path_mapping.workers.retry import RetryPolicy

        began = time.monotonic()
        with self._busy:
            published = opened.cache.publish(cancel, RetryPolicy(RETRY_SECONDS))
            if published is None:
                return
            self._published = published.files
            self._compiled += published.new
        what = f"{published.files} files, {size(published.size)}, {published.new} of them new"
        seconds = time.monotonic() - began
        opened.boot.journal.say(ProgressLine(f"compile cache: published in {seconds:.1f} s: {what}"))

    def finish(self, run: RunResult | None) -> None:
        """Publishes what was compiled since, after a training that ended well, and reports the hits.

        Compilers that were killed may have left half a file, so after any other end nothing is published.
        """
        opened = self._opened
        if opened is None or run is None:
            return
        with opened.boot.journal.best_effort("compile cache: not reported"):
            cache = opened.cache
            is_well = run.succeeded and not opened.boot.inbox.stops
            if is_well and opened.is_writer and cache.new_files(cache.list_files()):
                self._publish_last(opened)
            new = self._compiled + len(cache.new_files(cache.list_files()))
            text = Message.of("{} files from the cache, {} compiled in this start", self._restored, new)
            opened.boot.journal.say(f"compile cache: {text}")
            opened.boot.journal.event(
                "compile-cache", restored=self._restored, new=new, published=self._published, text=text
            )

    def _publish_last(self, opened: OpenCache) -> None:
        inbox, journal = opened.boot.inbox, opened.boot.journal
        task = Task(PHASE, partial(self._publish, opened), inbox)
        try:
            if not task.wait(inbox.check, time.monotonic() + PUBLISH_SECONDS):
                raise TimeoutError(f"it took longer than {PUBLISH_SECONDS:.0f} s")
            task.result()
        except Exception as error:
            journal.warn(f"compile cache: not published: {_reason(error)}")
        finally:
            cancel_and_wait(task)


def open_cache(boot: Boot, training: TrainingEnvironment) -> NodeCache:
    """Returns the compile cache of the mapping for the code and software of the training.

    Nothing is restored yet. Without a cache in the mapping, or a known digest of the code, there is none.
    """
    transfers = boot.transfers
    if transfers is None or not transfers.mapping.caches:
        return NodeCache()
    opened = None
    with boot.journal.best_effort("compile cache: not used"):
        opened = _open(boot, transfers, training)
    return NodeCache(opened)


def _open(boot: Boot, transfers: NodeTransfers, training: TrainingEnvironment) -> OpenCache | None:
    from ma_boot.node.boot.job_code import code_of
    from ma_boot.node.caches.cache_key import cache_key, read_machine_facts
    from ma_boot.node.caches.compile_cache import CacheTarget, CompileCache
    from ma_boot.node.environment.code_digest import digest_of_code
    from ma_boot.node.environment.software import read_software

    route, base = transfers.mapping.caches[0], transfers.base
    root, without = code_of(boot)
    # Without a script, it is what the platform has copied.
    code = digest_of_code(root or boot.job.job_dir, [*without, str(route.path(base))])
    if not code.digest:
        boot.journal.warn(f"compile cache: not used, as the code is unknown: {code.why}")
        return None
    facts = {**read_software(training.python, None), **read_machine_facts(boot.context.environ)}
    target = CacheTarget(
        route,
        base,
        transfers.store,
        key=cache_key(code.digest, facts),
        job=boot.job.name,
        say=boot.journal.warn,
    )
    return OpenCache(boot, CompileCache(target))


def _reason(error: Exception) -> str:
    """Returns the reason of a failure; the class of an unexpected error is part of it."""
    is_expected = isinstance(error, (PathMappingError, BootError, OSError))
    return str(error) if is_expected else described(error)


def _make_directories(opened: OpenCache, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the variables for the compilers, and makes their directories; CANN requires that."""
    from ma_boot.node.caches.compilers import compiler_variables

    journal, root = opened.boot.journal, str(opened.cache.target.root)
    variables = compiler_variables(root, environ, opened.boot.job.node_count)
    for note in variables.notes:
        journal.warn(f"compile cache: {note}")
    try:
        for directory in variables.directories:
            os.makedirs(directory, exist_ok=True)
    except OSError as error:
        journal.warn(f"compile cache: not used: {error}")
        return {}
    return variables.values
