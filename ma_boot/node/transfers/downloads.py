"""Download of a node's inputs, in a thread beside the phases before the training."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

from ma_boot.errors import PhaseCancelled
from ma_boot.node.transfers.mapping import NodeTransfers, inputs_of
from ma_boot.node.transfers.progress import (
    FIRST_LINE_SECONDS,
    TransferProgress,
    cancel_and_wait,
    report_transfer,
    summarise,
)
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from path_mapping import errors as mapping_errors


@contextmanager
def downloading_inputs(
    transfers: NodeTransfers | None, journal: Journal, inbox: SignalInbox
) -> Iterator[Callable[[], None]]:
    """Downloads the inputs in a thread while the block runs; the block ends when they have arrived.

    It yields a check for the waits of the block. The check raises `PhaseCancelled` once the download has
    failed, and then the end of the block raises the `BootError`; at a stop signal it raises `Stopped`. If the
    block fails, the download is cancelled.
    """
    routes = inputs_of(transfers)
    if transfers is None or not routes:
        yield inbox.check
        inbox.check()
        return
    from path_mapping.transfer.transfer import download
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    policy = RetryPolicy(transfers.retry_seconds)
    progress = TransferProgress("inputs", "download", journal, transfers.store.hashing)

    def work(cancel: threading.Event) -> None:
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    source = RetriedStore(transfers.store, cancel, policy, progress.report_retry)
                    done = download(routes, transfers.base, source, update, part=transfers.shard)
            except mapping_errors.PathMappingError as error:
                raise to_boot_error(error, transfers.store) from error
            phase.detail = summarise(done)
            report_transfer(journal, "download", done)

    task = Task("inputs", work, inbox)

    def check() -> None:
        inbox.check()
        try:
            task.check()
        except Exception as error:
            # The phase beside the inputs has not failed, it only ends early.
            raise PhaseCancelled("the inputs failed") from error

    try:
        yield check
        task.wait(inbox.check, remind=progress.say, first=FIRST_LINE_SECONDS)
    except PhaseCancelled:
        task.check()
        raise
    except BaseException:
        cancel_and_wait(task)
        raise
    task.result()
