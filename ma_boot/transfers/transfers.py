"""Inputs and outputs of a node: `path_mapping` in threads beside the phases, its errors as boot errors."""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Tuple

from ma_boot.errors import (
    CannotCreate,
    InputMissing,
    InternalError,
    OutputLost,
    PhaseCancelled,
    StoreUnavailable,
    described,
    listed,
)
from ma_boot.processes import SignalInbox, Task, limit_reached, no_more_processes
from ma_boot.reporting import Console, Journal, rendered, with_store_hint
from ma_boot.transfers.mapping import NodeTransfers, inputs_of, outputs_of
from ma_boot.wording import Message, ProgressLine, counted, in_lines
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from path_mapping.mapping import Route
    from path_mapping.planning import EmptyRoute, LocalEntry
    from path_mapping.stores import Store
    from path_mapping.transfer import Progress, RetriedStore, RetryPolicy, Transferred, Trouble, UploadChoice

Update = Callable[["Progress"], None]
EVENT_SECONDS = 1.0  # between two progress events, at least
EVENT_SHARE = 0.02  # of the time so far: a transfer of an hour has fewer than 300 of them
BAR_SECONDS = 0.1  # between two redraws of a bar
QUIET_SECONDS = 5.0  # for which a request may be retried without a line
TROUBLE_SECONDS = 30.0  # between two lines about retries


def told_of_credentials(journal: Journal) -> Callable[[str], None]:
    """What takes the message that renewed credentials are waited for."""

    def tell(text: str) -> None:
        journal.say(text)
        journal.event("waiting", what="credentials", reason=text)

    return tell


class TransferProgress:
    """Takes the progress of a transfer in its thread; prints it from the thread that waits for it.

    It also writes a progress event from time to time.
    """

    def __init__(self, what: str, direction: str, journal: Journal) -> None:
        self._what = what
        self._direction = direction
        self._journal = journal
        self._bar: Optional[Update] = None
        self._now: Optional[Progress] = None
        self._started = 0.0
        self._recorded = 0.0
        self._trouble: Optional[Trouble] = None
        self._printed_at = -TROUBLE_SECONDS

    def retrying(self, trouble: Trouble) -> None:
        """Prints what is retried, since when and until when: not the first seconds, and not each time."""
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
        """The last error of a request that was retried, as the end of a message; empty if there was none."""
        return Message.of("; the last error: {}", self._trouble.error) if self._trouble is not None else ""

    @contextmanager
    def shown(self) -> Iterator[Update]:
        """The transfer's progress callback; on a terminal a bar is shown until the block ends."""
        with ExitStack() as stack:
            if self._journal.console.interactive:
                self._bar = stack.enter_context(_bar(self._what, self._journal.console))
            self._started = self._recorded = time.monotonic()
            yield self._update

    def _update(self, now: Progress) -> None:
        self._now = now
        if self._bar is not None:
            self._bar(now)
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
        if self._now is None:
            self._journal.say(f"{self._what}: scanning")
        else:
            self._journal.say(f"{self._what}: {state_of(self._now, time.monotonic() - self._started)}")


@contextmanager
def _bar(what: str, console: Console) -> Iterator[Update]:
    import rich.progress as bars  # only a terminal needs this and what it is rendered by

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


def _clock(seconds: float) -> str:
    """The local time so many seconds from now."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))


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
    """`6 files, 3.1 MB in 0.2 s (15.5 MB/s), 2 already present, 1 retries, length only: 3 files`."""
    text = f"{counted(done.files, 'file')}, {done.bytes / 1e6:.1f} MB in {done.seconds:.1f} s"
    if done.seconds >= 0.1:
        text += f" ({done.bytes / 1e6 / done.seconds:.1f} MB/s)"
    if done.skipped:
        text += f", {done.skipped} already present"
    if done.retries:
        text += f", {counted(done.retries, 'retry', 'retries')}"
    if done.by_length:
        text += f", length only: {counted(done.by_length, 'file')}"
    return text


def record(journal: Journal, direction: str, done: Transferred) -> None:
    """Writes the event of a finished transfer."""
    journal.event(
        "transfer", direction=direction, files=done.files, bytes=done.bytes, seconds=done.seconds,
        skipped=done.skipped, retries=done.retries, by_length=done.by_length,
    )  # fmt: skip


# What moves files is imported where a job has files to move.

CANCEL_SECONDS = 2.0  # for a cancelled transfer to end; its thread is abandoned after that
MOST_NOTICES = 5
NOTHING_LEFT = Message.of("the training ended well, but left nothing at these output paths:")
NONE_SELECTED = Message.of("the patterns of these outputs select none of their files:")


@contextmanager
def downloading_inputs(
    transfers: Optional[NodeTransfers], journal: Journal, inbox: SignalInbox
) -> Iterator[Callable[[], None]]:
    """Downloads the inputs in a thread while the block runs; the block ends when they have arrived.

    It yields a check for whatever waits in the block: that raises `PhaseCancelled` once the download has
    failed, upon which the end of the block raises its `BootError`, and `Stopped` at a stop signal. If the
    block fails, the download is cancelled.
    """
    routes = inputs_of(transfers)
    if transfers is None or not routes:
        yield inbox.check
        inbox.check()
        return
    from path_mapping.transfer import RetriedStore, RetryPolicy, download

    store, base, part = transfers.store, transfers.base, transfers.shard
    patience = RetryPolicy(transfers.retry_seconds)

    def fetch(cancel: threading.Event) -> None:
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    to = RetriedStore(store, cancel, patience, progress.retrying)
                    done = download(routes, base, to, update, part=part)
            except mapping_errors.PathMappingError as error:
                raise boot_error(error, store) from error
            phase.detail = summary(done)
            _report(done, "download", journal)

    progress = TransferProgress("inputs", "download", journal)
    task = Task("inputs", fetch, inbox)

    def check() -> None:
        inbox.check()
        try:
            task.check()
        except Exception as error:  # it is not the fault of the phase that runs beside the inputs
            raise PhaseCancelled("the inputs failed") from error

    try:
        yield check
        task.wait(inbox.check, remind=progress.say)
    except PhaseCancelled:
        task.check()
        raise
    except BaseException:
        cancelled_soon(task)
        raise
    task.result()


def look_at_outputs(transfers: Optional[NodeTransfers], inbox: SignalInbox) -> None:
    """Checks before the training that its outputs can be uploaded (`check_outputs`).

    Takes note of the objects of shared outputs, too. Raises `StoreUnavailable` if there is no such bucket, or
    OBS refuses or does not answer; and `Stopped`.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return
    from path_mapping.transfer import RetriedStore, RetryPolicy, check_outputs

    store, seconds, shared = transfers.store, transfers.retry_seconds, transfers.shared

    def look(cancel: threading.Event) -> None:
        check_outputs(routes, store, cancel, seconds)
        if shared is not None:
            shared.note_objects(RetriedStore(store, cancel, RetryPolicy(seconds)))

    task = Task("outputs", look, inbox)
    try:
        task.wait(inbox.check)
        task.result()
    except (mapping_errors.StoreError, mapping_errors.CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    except BaseException:
        cancelled_soon(task)
        raise


@contextmanager
def uploading_periodically(
    transfers: Optional[NodeTransfers], journal: Journal, inbox: SignalInbox
) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; stops as soon as the block ends.

    Failures of any kind are reported and retried in the next round: the last upload is the one that counts.
    """
    routes = outputs_of(transfers)
    if transfers is None or all(route.interval is None for route in routes):
        yield
        return
    from path_mapping.transfer import RetriedStore, upload_periodically

    store, base = transfers.store, transfers.base

    def done(moved: Transferred) -> None:
        journal.say(ProgressLine(f"outputs so far: {summary(moved)}"))
        record(journal, "upload", moved)

    def failed(error: Exception) -> None:
        expected = isinstance(error, (mapping_errors.PathMappingError, OSError))
        what = str(error) if expected else described(error)
        journal.warn(f"outputs so far: not all uploaded, the next round retries: {what}")

    def send(cancel: threading.Event) -> None:
        wanted = _wanted(routes, base)
        to = RetriedStore(store, cancel)
        target = transfers.shared.target if transfers.shared is not None else None
        upload_periodically(routes, base, to, done=done, failed=failed, wanted=wanted, shared=target)

    task = None
    try:
        task = Task("outputs so far", send, inbox)
    except RuntimeError as error:  # the limit of threads
        journal.warn(f"outputs so far: uploaded at the end only: {described(error)}")
    try:
        yield
    finally:
        if task is not None:
            cancelled_soon(task)


def upload_outputs(
    transfers: Optional[NodeTransfers],
    journal: Journal,
    inbox: SignalInbox,
    timeout: float,
    nothing: str,
    spared: int = 1,
    before: Callable[[threading.Event, RetryPolicy], Sequence[str]] = lambda cancel, patience: (),
    listen: Callable[[], None] = lambda: None,
) -> Optional[OutputLost]:
    """Uploads the outputs; nothing is raised, a loss is returned: how the training ended comes first.

    It takes at most `timeout` seconds, and a further stop signal ends it: the second one of all, as the first
    one (`spared`) is the platform's. `before` is called first, and returns what was lost; `listen` is called
    when peers may have sent messages. An output with nothing at its local path is lost, with the headline
    `nothing`, or only noted if that is empty. After a stop signal there may be little time: nothing is
    listed, and the newest and smallest files go first.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return None
    from path_mapping.transfer import RetriedStore, RetryPolicy, UploadChoice

    store, base, hurry = transfers.store, transfers.base, bool(inbox.stops)

    def send(cancel: threading.Event) -> Tuple[Transferred, Sequence[str]]:
        problems = before(cancel, patience)
        choice = UploadChoice(listed=not hurry, hurry=hurry, wanted=_wanted(routes, base))
        with progress.shown() as update:
            to = RetriedStore(store, cancel, patience, progress.retrying)
            return _sent(transfers, to, update, choice), problems

    progress = TransferProgress("outputs", "upload", journal)
    stops, deadline = max(spared, len(inbox.stops)), time.monotonic() + timeout
    patience = RetryPolicy(transfers.retry_seconds if timeout == math.inf else math.inf, deadline)

    def check() -> None:
        listen()
        if len(inbox.stops) > stops:
            raise OutputLost(Message.of("not every output was uploaded: interrupted by a second stop signal"))

    try:
        with journal.phase("outputs") as phase:
            task = Task("outputs", send, inbox)
            if not task.wait(check, deadline, progress.say):
                late = "not every output was uploaded within {} s (--upload-timeout){}"
                message = Message.of(late, f"{timeout:.0f}", progress.last_error())
                raise OutputLost(with_store_hint(message))
            done, problems = task.result()
            phase.detail = summary(done)
            _judge(done, problems, journal, nothing)
    except OutputLost as lost:
        cancelled_soon(task)
        return lost
    except Exception as error:
        message = Message.of("not every output was uploaded: {}", _explained(error))
        return OutputLost(with_store_hint(message))
    return None


def _sent(transfers: NodeTransfers, to: RetriedStore, update: Update, choice: UploadChoice) -> Transferred:
    """Uploads all outputs; the shared ones are compared with the objects afterwards."""
    from path_mapping.transfer import upload

    def send(routes: Sequence[Route], choice: UploadChoice) -> Transferred:
        return upload(routes, transfers.base, to, update, choice=choice)

    shared, routes = transfers.shared, outputs_of(transfers)
    return send(routes, choice) if shared is None else shared.upload(send, routes, choice, to)


def _explained(error: Exception) -> Exception:
    """The error of an upload in words that need no traceback, where they are known."""
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(str(error))
    if isinstance(error, (mapping_errors.PathMappingError, OSError)):
        return limit_reached(error) or error
    return limit_reached(error) or InternalError.of(error)


def sent_one_by_one(routes: Sequence[Route], base: Path) -> Callable[[str], bool]:
    """Which files of these outputs are uploaded one by one: all but the files of checkpoint sets."""
    if all(route.more is None for route in routes):
        return lambda path: True
    from ma_boot.checkpoints import files_of_no_set

    return files_of_no_set(routes, base)


def _wanted(routes: Sequence[Route], base: Path) -> Callable[[str, LocalEntry], bool]:
    mine = sent_one_by_one(routes, base)
    return lambda path, local: mine(path)


def cancelled_soon(task: Task[Any]) -> None:
    """Asks a task to end, and waits for that a little."""
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _judge(done: Transferred, problems: Sequence[str], journal: Journal, loss: str) -> None:
    """Reports an upload; raises `OutputLost` for what was not sent before it, or is missing and expected."""
    _report(done, "upload", journal)
    if problems:
        raise OutputLost(with_store_hint(in_lines(problems)))
    # An output with checkpoints may be empty: the training may remove what was published.
    empty = [found for found in done.empty if found.why or found.route.more is None]
    absent = [*done.missing, *(found.route for found in empty if not found.why)]
    unselected = [found for found in empty if found.why]
    if loss:
        losses = [
            (loss, [_ends(route) for route in absent if route.required]),
            (NONE_SELECTED, [_unselected(found) for found in unselected if found.route.required]),
        ]
        lines = [listed(headline, outputs) for headline, outputs in losses if outputs]
        if lines:
            raise OutputLost(with_store_hint(in_lines(lines)))
    outputs = [*map(_ends, absent), *map(_unselected, unselected)]
    if outputs:
        journal.say(listed("nothing to upload from", outputs))


def _ends(route: Route) -> str:
    """The two ends of an output, in a message."""
    return f"{route.local} (for {route.remote})"


def _unselected(found: EmptyRoute) -> str:
    return f"{_ends(found.route)}: {found.why}"


def _report(done: Transferred, direction: str, journal: Journal) -> None:
    for notice in done.notices[:MOST_NOTICES]:
        journal.warn(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.warn(f"and {len(done.notices) - MOST_NOTICES} more notices like these")
    record(journal, direction, done)


def nothing_at(outputs: Sequence[str], headline: str = NOTHING_LEFT) -> OutputLost:
    """The loss of outputs at whose local paths there is nothing."""
    return OutputLost(with_store_hint(listed(headline, outputs)))


def _in_words(what: str, error: mapping_errors.PathMappingError) -> str:
    """The error of a transfer of `what`; where it lists problems, with a headline that has a translation."""
    headline, *problems = str(error).split("\n")
    if problems and "{}" not in headline:
        headline = Message(headline)
    return in_lines([Message.of("{}: {}", Message(what), headline), *problems])


def boot_error(
    error: mapping_errors.PathMappingError, store: Optional[Store] = None, what: str = "inputs"
) -> Exception:
    """The error of a download from `store` as one with an exit code; `PhaseCancelled` for a cancelled one."""
    if isinstance(error, mapping_errors.Cancelled):
        return PhaseCancelled("cancelled")
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(f"{what}: {error}")
    failed = error.failures if isinstance(error, mapping_errors.TransferFailed) else ()
    causes = [failure.error for failure in failed] or [error]
    local = (OSError, mapping_errors.UnsafeTarget, mapping_errors.NoSpace, mapping_errors.TargetRemoved)
    if any(isinstance(cause, local) for cause in causes):
        return CannotCreate(_in_words(what, error))
    if isinstance(error, mapping_errors.MissingInputs) and store is not None:
        from path_mapping.mapping import ObsUrl

        def place(text: str) -> str:
            url = ObsUrl.parse(text)
            return store.place(url.bucket, url.key)

        error = error.located(place)
    message = with_store_hint(_in_words(what, error))
    absent = (mapping_errors.MissingInputs, mapping_errors.NothingSelected, mapping_errors.NotFound)
    if any(isinstance(cause, absent) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)
