"""Progress of a transfer as lines, events, or a bar on a terminal; and the report of a finished one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable

from ma_boot.processes.task import Task
from ma_boot.report.console import Console, rendered
from ma_boot.report.journal import Journal
from ma_boot.wording import Message, counted, size

if TYPE_CHECKING:
    from path_mapping.localfs.hash_progress import HashProgress
    from path_mapping.transfer.scheduler import Progress
    from path_mapping.transfer.transfer import Transferred
    from path_mapping.workers.retry import Trouble

Update = Callable[["Progress"], None]
# Seconds; least time between two progress events.
EVENT_SECONDS = 1.0
# The same as a share of the time so far: a transfer of an hour has fewer than 300 events.
EVENT_SHARE = 0.02
# Seconds between two redraws of a bar.
BAR_SECONDS = 0.1
# Seconds for which a request is retried without a line.
QUIET_SECONDS = 5.0
# Seconds between two lines about retries.
TROUBLE_SECONDS = 30.0
# Seconds until the first line of a transfer without a bar; the next ones are further apart.
FIRST_LINE_SECONDS = 5.0
# Seconds; max. wait for a cancelled transfer, whose thread is abandoned after that.
CANCEL_SECONDS = 2.0
# Notices of one transfer that are printed.
MOST_NOTICES = 5


def credentials_reporter(journal: Journal) -> Callable[[str], None]:
    """Returns the function that reports a wait for renewed credentials."""

    def tell(text: str) -> None:
        journal.say(text)
        journal.event("waiting", what="credentials", reason=text)

    return tell


class TransferProgress:
    """Takes the progress of a transfer in its thread, and prints it in the thread that waits for it.

    It also writes progress events. `hashing` are checksums before the first byte, of a directory as OBS.
    """

    def __init__(
        self, what: str, direction: str, journal: Journal, hashing: HashProgress | None = None
    ) -> None:
        self._hashing = hashing
        self._what = what
        self._direction = direction
        self._journal = journal
        self._bar: Callable[[str, int, int], None] | None = None
        self._now: Progress | None = None
        self._started = 0.0
        self._recorded = 0.0
        self._trouble: Trouble | None = None
        self._printed_at = -TROUBLE_SECONDS

    def report_retry(self, trouble: Trouble) -> None:
        """Reports a request that is retried, after some seconds, and then from time to time."""
        self._trouble = trouble
        now = time.monotonic()
        if now - trouble.since < QUIET_SECONDS or now - self._printed_at < TROUBLE_SECONDS:
            return
        self._printed_at = now
        until = f" until {_clock(trouble.until - now)}" if trouble.until < math.inf else ""
        since = _clock(trouble.since - now)
        self._journal.warn(f"{self._what}: OBS fails since {since}, retrying{until}: {trouble.error}")
        self._journal.event("waiting", what=self._what, reason=trouble.error)

    def last_error(self) -> str:
        """Returns the last error of a retried request as the end of a message; empty without one."""
        return Message.of("; the last error: {}", self._trouble.error) if self._trouble is not None else ""

    @contextmanager
    def shown(self) -> Iterator[Update]:
        """Yields the callback for the progress; on a terminal a bar is shown until the block ends."""
        with ExitStack() as stack:
            if self._journal.console.interactive:
                self._bar = stack.enter_context(_bar(self._what, self._journal.console))
            self._started = self._recorded = time.monotonic()
            if self._hashing is not None and self._bar is not None:
                self._hashing.changed = self._show_hashing
            yield self._update

    def _show_hashing(self) -> None:
        if self._bar is not None and self._hashing is not None and self._now is None:
            self._bar("checksums", self._hashing.done, self._hashing.expected)

    def _update(self, now: Progress) -> None:
        if self._now is None or now.bytes_done < self._now.bytes_done:  # after a scan, or another transfer
            self._started = time.monotonic()
        self._now = now
        if self._bar is not None:
            self._bar(f"{now.files_done}/{now.files} files", now.bytes_done, now.bytes)
        moment = time.monotonic()
        if moment - self._recorded >= max(EVENT_SECONDS, EVENT_SHARE * (moment - self._started)):
            self._recorded = moment
            self._journal.event(
                "progress", direction=self._direction, files_done=now.files_done, files=now.files,
                bytes_done=now.bytes_done, bytes=now.bytes,
            )  # fmt: skip

    def say(self) -> None:
        """Prints the progress as a line, unless a bar shows it."""
        if self._bar is not None:
            return
        seconds = time.monotonic() - self._started
        if self._now is not None:
            self._journal.say(f"{self._what}: {format_progress(self._now, seconds)}")
        elif self._hashing is not None and self._hashing.expected:
            text = format_bytes(self._hashing.done, self._hashing.expected, seconds)
            self._journal.say(f"{self._what}: checksums: {text}")
        else:
            self._journal.say(f"{self._what}: scanning")


@contextmanager
def _bar(what: str, console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Shows a bar during the block; yields what sets its text, and its bytes done and in total."""
    # Slow to import, and used on a terminal only.
    import rich.progress as bars

    columns = (
        bars.TextColumn("[bold]{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[files]}"),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    bar = bars.Progress(*columns, auto_refresh=False)
    task = bar.add_task(what, total=None, files="")
    drawn_at = 0.0

    with console.below() as show:

        def update(text: str, done: int, total: int) -> None:
            nonlocal drawn_at
            if done < bar.tasks[0].completed:
                bar.reset(task)
            bar.update(task, completed=done, total=total, files=text)
            if time.monotonic() - drawn_at >= BAR_SECONDS:
                show(rendered(bar.get_renderable(), console.size.columns))
                drawn_at = time.monotonic()

        yield update


def _clock(seconds: float) -> str:
    """Returns the local time so many seconds from now."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))


def format_progress(now: Progress, seconds: float) -> str:
    """Returns `40 of 100 files, 12.0 MB of 300 MB, 5.0 MB/s, 58 s left`, after that many seconds."""
    return f"{now.files_done} of {now.files} files, {format_bytes(now.bytes_done, now.bytes, seconds)}"


def format_bytes(done: int, total: int, seconds: float) -> str:
    """Returns `12.0 MB of 300 MB, 5.0 MB/s, 58 s left`, after that many seconds."""
    text = f"{size(done)} of {size(total)}, {size(done / max(seconds, 0.001))}/s"
    if not done:
        return text
    left = seconds * (total - done) / done
    return f"{text}, {left:.0f} s left" if left < 100 else f"{text}, {left / 60:.0f} min left"


def summarise(done: Transferred) -> str:
    """Returns `6 files, 3.1 MB in 0.2 s (15.5 MB/s), 2 already present, 1 retry, length only: 3 files`."""
    text = f"{counted(done.files, 'file')}, {size(done.bytes)} in {done.seconds:.1f} s"
    if done.seconds >= 0.1:
        text += f" ({size(done.bytes / done.seconds)}/s)"
    if done.skipped:
        text += f", {done.skipped} already present"
    if done.retries:
        text += f", {counted(done.retries, 'retry', 'retries')}"
    if done.by_length:
        text += f", length only: {counted(done.by_length, 'file')}"
    return text


def record_transfer(journal: Journal, direction: str, done: Transferred) -> None:
    """Writes the event of a finished transfer."""
    journal.event(
        "transfer", direction=direction, files=done.files, bytes=done.bytes, seconds=done.seconds,
        skipped=done.skipped, retries=done.retries, by_length=done.by_length,
    )  # fmt: skip


def report_transfer(journal: Journal, direction: str, done: Transferred) -> None:
    """Prints the notices of a finished transfer, and writes its event."""
    for notice in done.notices[:MOST_NOTICES]:
        journal.warn(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.warn(f"and {len(done.notices) - MOST_NOTICES} more notices like these")
    record_transfer(journal, direction, done)


def cancel_and_wait(task: Task[Any]) -> None:
    """Cancels the task of a transfer, and waits a little for its end."""
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)
