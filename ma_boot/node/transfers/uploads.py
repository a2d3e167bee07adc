"""Upload of a node's outputs: a check before the training, rounds while it runs, and all of them at the end.

before          check_output_access: the buckets exist, and can be written
while it runs   uploading_periodically: outputs with an interval; errors are retried in the next round
at the end      upload_outputs: checkpoints first, then all other files; returns the loss
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Callable, NamedTuple

from ma_boot.errors import OutputLost, StoreUnavailable, described, listed
from ma_boot.node.transfers.mapping import NodeTransfers, outputs_of, upload_routes
from ma_boot.node.transfers.progress import (
    TransferProgress,
    Update,
    cancel_and_wait,
    record_transfer,
    report_transfer,
    summarise,
)
from ma_boot.node.transfers.transfer_errors import explain_upload_error, find_missing_outputs
from ma_boot.node.transfers.unsent import UnsentFiles
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.hints import with_store_hint
from ma_boot.report.journal import Journal
from ma_boot.wording import Message, ProgressLine, in_lines
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from path_mapping.mapping.routes import Route
    from path_mapping.planning.prepare import UploadChoice
    from path_mapping.transfer.transfer import Transferred
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Modules of transfers are imported in functions: a job without outputs does not load them.


def check_output_access(transfers: NodeTransfers | None, inbox: SignalInbox) -> None:
    """Checks before the training that its outputs can be uploaded, and lists those that nodes share.

    Raises:
        StoreUnavailable: a bucket does not exist, or OBS refuses or does not answer.
        Stopped: a stop signal has come.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return
    from path_mapping.transfer.left_uploads import check_outputs
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    store, seconds, shared = transfers.store, transfers.retry_seconds, transfers.shared

    def work(cancel: threading.Event) -> None:
        check_outputs(routes, store, cancel, seconds)
        if shared is not None:
            shared.note_objects(RetriedStore(store, cancel, RetryPolicy(seconds)))

    task = Task("outputs", work, inbox)
    try:
        task.wait(inbox.check)
        task.result()
    except (mapping_errors.StoreError, mapping_errors.CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    except BaseException:
        cancel_and_wait(task)
        raise


@contextmanager
def uploading_periodically(
    transfers: NodeTransfers | None,
    journal: Journal,
    inbox: SignalInbox,
    is_ordinary: Callable[[str], bool] = lambda path: True,
) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; stops as soon as the block ends.

    `is_ordinary` tells if the file at a path will be in no checkpoint. Errors are reported, and retried in
    the next round: only those of the last upload are losses.
    """
    routes = upload_routes(transfers)
    if transfers is None or all(route.interval is None for route in routes):
        yield
        return
    from path_mapping.transfer.periodic import upload_periodically
    from path_mapping.workers.retry import RetriedStore

    store, base = transfers.store, transfers.base

    def is_wanted(path: str, local: object) -> bool:
        return is_ordinary(path)

    def report(done: Transferred) -> None:
        journal.say(ProgressLine(f"outputs so far: {summarise(done)}"))
        record_transfer(journal, "upload", done)

    def report_failure(error: Exception) -> None:
        expected = isinstance(error, (mapping_errors.PathMappingError, OSError))
        what = str(error) if expected else described(error)
        journal.warn(f"outputs so far: not all uploaded, the next round retries: {what}")

    def work(cancel: threading.Event) -> None:
        to = RetriedStore(store, cancel)
        target = transfers.shared.target if transfers.shared is not None else None
        upload_periodically(
            routes, base, to, done=report, failed=report_failure, wanted=is_wanted, shared=target
        )

    task = None
    try:
        task = Task("outputs so far", work, inbox)
    except RuntimeError as error:
        # The limit of threads is reached.
        journal.warn(f"outputs so far: uploaded at the end only: {described(error)}")
    try:
        yield
    finally:
        if task is not None:
            cancel_and_wait(task)


class CheckpointsFirst(NamedTuple):
    """Checkpoints of a node, which are published before its other files are uploaded.

    `publish` returns the problems of those that are lost; `ordinary` then returns the predicate of the files
    that are left.
    """

    publish: Callable[[threading.Event, RetryPolicy], Sequence[str]]
    ordinary: Callable[[], Callable[[str], bool]]


class UploadTerms(NamedTuple):
    """Terms of the last upload.

    It takes at most `timeout` seconds, and ends at a stop signal after the first `expected_stops`. An output
    with nothing at its local path is lost, with the headline `missing`, or only noted if that is empty.
    `checkpoints` come first. `listen` is called when peers may have sent messages.
    """

    timeout: float = math.inf
    missing: str = ""
    expected_stops: int = 1
    checkpoints: CheckpointsFirst | None = None
    listen: Callable[[], None] = lambda: None


def upload_outputs(
    transfers: NodeTransfers | None, journal: Journal, inbox: SignalInbox, terms: UploadTerms
) -> OutputLost | None:
    """Uploads the outputs; returns errors instead of raising: the training's result takes precedence.

    After a stop signal the grace period may be short: nothing is listed, and the newest and smallest files go
    first.
    """
    if transfers is None or not upload_routes(transfers):
        return None
    return _LastUpload(transfers, journal, inbox, terms).run()


class _LastUpload:
    """The upload at the end of a boot, in a thread, so that signals and the timeout end it."""

    def __init__(
        self, transfers: NodeTransfers, journal: Journal, inbox: SignalInbox, terms: UploadTerms
    ) -> None:
        from path_mapping.workers.retry import RetryPolicy

        self._transfers = transfers
        self._journal = journal
        self._inbox = inbox
        self._terms = terms
        self._hurry = bool(inbox.stops)
        # The first stop signals are the platform's; the user's next one ends the upload.
        self._most_stops = max(terms.expected_stops, len(inbox.stops))
        self._deadline = time.monotonic() + terms.timeout
        retry_seconds = transfers.retry_seconds if terms.timeout == math.inf else math.inf
        self._policy = RetryPolicy(retry_seconds, self._deadline)
        self._progress = TransferProgress("outputs", "upload", journal)
        self._checkpoints = terms.checkpoints or CheckpointsFirst(
            lambda cancel, policy: (), partial(ordinary_by_mapping, transfers)
        )
        self._unsent = UnsentFiles(upload_routes(transfers), transfers.base, self._checkpoints.ordinary)

    def run(self) -> OutputLost | None:
        """Uploads, and returns the loss with the names of the files that were not sent."""
        task: Task[tuple[Transferred, Sequence[str]]] | None = None
        try:
            with self._journal.phase("outputs") as phase:
                task = Task("outputs", self._work, self._inbox)
                if not task.wait(self._check, self._deadline, self._progress.say):
                    raise self._timed_out()
                done, problems = task.result()
                phase.detail = summarise(done)
                self._judge(done, problems)
        except OutputLost as lost:
            # A finished upload has sent all files, and has lost something else.
            has_sent = task is not None and task.finished
            if task is not None:
                cancel_and_wait(task)
            return lost if has_sent else self._unsent.add_names(lost, self._journal)
        except Exception as error:
            message = Message.of("not every output was uploaded: {}", explain_upload_error(error))
            return self._unsent.add_names(OutputLost(with_store_hint(message)), self._journal)
        return None

    def _work(self, cancel: threading.Event) -> tuple[Transferred, Sequence[str]]:
        """Publishes the checkpoints, then uploads all other files; runs in the thread."""
        from path_mapping.workers.retry import RetriedStore

        problems = self._checkpoints.publish(cancel, self._policy)
        with self._progress.shown() as update:
            target = RetriedStore(self._transfers.store, cancel, self._policy, self._progress.report_retry)
            return self._upload_files(target, update), problems

    def _upload_files(self, target: RetriedStore, update: Update) -> Transferred:
        from path_mapping.planning.prepare import UploadChoice
        from path_mapping.transfer.transfer import upload

        base, unsent = self._transfers.base, self._unsent

        def send(routes: Sequence[Route], choice: UploadChoice) -> Transferred:
            return upload(routes, base, target, update, choice=choice, unsent=unsent.take)

        is_ordinary = self._checkpoints.ordinary()
        choice = UploadChoice(
            listed=not self._hurry, hurry=self._hurry, wanted=lambda path, local: is_ordinary(path)
        )
        shared, routes = self._transfers.shared, upload_routes(self._transfers)
        return send(routes, choice) if shared is None else shared.upload(send, routes, choice, target)

    def _check(self) -> None:
        """Raises `OutputLost` if more stop signals have come than expected."""
        self._terms.listen()
        if len(self._inbox.stops) > self._most_stops:
            raise OutputLost(Message.of("not every output was uploaded: interrupted by a second stop signal"))

    def _timed_out(self) -> OutputLost:
        text = "not every output was uploaded within {} s (--upload-timeout){}"
        last_error = self._progress.last_error()
        return OutputLost(with_store_hint(Message.of(text, f"{self._terms.timeout:.0f}", last_error)))

    def _judge(self, done: Transferred, problems: Sequence[str]) -> None:
        """Reports the upload; raises `OutputLost` for lost checkpoints, and for missing outputs."""
        report_transfer(self._journal, "upload", done)
        lost, noted = find_missing_outputs(done, self._terms.missing)
        if problems or lost:
            raise OutputLost(with_store_hint(in_lines(problems or lost)))
        if noted:
            self._journal.say(listed("nothing to upload from", noted))


def ordinary_by_mapping(
    transfers: NodeTransfers | None, outputs: Sequence[CheckpointOutput] = (), has_ended: bool = True
) -> Callable[[str], bool]:
    """Returns the predicate of the files that are uploaded one by one.

    `outputs` publish checkpoints in this job; `has_ended`: its processes write no more.
    """
    routes = outputs_of(transfers)
    if transfers is None or all(route.more is None for route in routes):
        return lambda path: True
    from ma_boot.node.checkpoints.output import ordinary_files

    return ordinary_files(routes, transfers.base, outputs, has_ended)
