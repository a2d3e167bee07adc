"""How far a transfer is: a bar on a terminal, a line now and then elsewhere, and what it was in the end."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import Callable, Iterator, Optional

from ma_boot.reporting import Console, Journal, rendered
from path_mapping.transfer import Progress, Transferred

Update = Callable[[Progress], None]
EVENT_SECONDS = 1.0  # between two events of how far a transfer is, at the least
BAR_SECONDS = 0.1  # between two states of a bar
EVENT_SHARE = 0.02  # of the time so far: a transfer of an hour has less than 300 of them


class TransferProgress:
    """Hears of a transfer in its thread, and says a line in the thread that waits for it.

    From time to time there is an event of it, too.
    """

    def __init__(self, what: str, direction: str, journal: Journal) -> None:
        self._what = what
        self._direction = direction
        self._noted = 0.0
        self._journal = journal
        self._bar: Optional[Update] = None
        self._now: Optional[Progress] = None
        self._begun = 0.0

    @contextmanager
    def shown(self) -> Iterator[Update]:
        """What the transfer calls; on a terminal there is a bar until the block ends."""
        with ExitStack() as stack:
            if self._journal.console.interactive:
                self._bar = stack.enter_context(_bar(self._what, self._journal.console))
            self._begun = self._noted = time.monotonic()
            yield self._update

    def _update(self, now: Progress) -> None:
        self._now = now
        if self._bar is not None:
            self._bar(now)
        moment = time.monotonic()
        if moment - self._noted >= max(EVENT_SECONDS, EVENT_SHARE * (moment - self._begun)):
            self._noted = moment
            self._journal.event(
                "progress", direction=self._direction, files_done=now.files_done, files=now.files,
                bytes_done=now.bytes_done, bytes=now.bytes,
            )  # fmt: skip

    def say(self) -> None:
        """Says how far it is, where no bar shows it."""
        if self._bar is not None:
            return
        if self._now is None:
            self._journal.say(f"{self._what}: looking at what there is")
        else:
            self._journal.say(f"{self._what}: {state_of(self._now, time.monotonic() - self._begun)}")


@contextmanager
def _bar(what: str, console: Console) -> Iterator[Update]:
    import rich.progress as bars  # not needed where nobody sees it

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

        def update(now: Progress) -> None:
            nonlocal drawn_at
            files = f"{now.files_done}/{now.files} files"
            bar.update(task, completed=now.bytes_done, total=now.bytes, files=files)
            if time.monotonic() - drawn_at >= BAR_SECONDS:
                show(rendered(bar.get_renderable(), console.size.columns))
                drawn_at = time.monotonic()

        yield update


def state_of(now: Progress, seconds: float) -> str:
    """`40 of 100 files, 12 of 300 MB, 5.0 MB/s, 1 min left`, after that many seconds."""
    text = (
        f"{now.files_done} of {now.files} files, {now.bytes_done / 1e6:.0f} of {now.bytes / 1e6:.0f} MB, "
        f"{now.bytes_done / 1e6 / max(seconds, 0.001):.1f} MB/s"
    )
    if not now.bytes_done:
        return text
    left = seconds * (now.bytes - now.bytes_done) / now.bytes_done
    return f"{text}, {left:.0f} s left" if left < 100 else f"{text}, {left / 60:.0f} min left"


def summary(done: Transferred) -> str:
    """`6 files, 3.1 MB in 0.2 s (15.5 MB/s), 2 were there, 1 request made again`."""
    text = f"{done.files} files, {done.bytes / 1e6:.1f} MB in {done.seconds:.1f} s"
    if done.seconds >= 0.1:
        text += f" ({done.bytes / 1e6 / done.seconds:.1f} MB/s)"
    if done.skipped:
        text += f", {done.skipped} were there"
    if done.retries:
        text += f", {done.retries} requests made again"
    return text


def note(journal: Journal, direction: str, done: Transferred) -> None:
    """The event of a transfer that is over."""
    journal.event(
        "transfer",
        direction=direction,
        files=done.files,
        bytes=done.bytes,
        seconds=done.seconds,
        skipped=done.skipped,
        retries=done.retries,
    )
