"""Retries of requests: the only ones, as those of the SDK would multiply with them and are disabled."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Callable, NamedTuple, TypeVar

from path_mapping.errors import (
    Cancelled,
    Corrupted,
    Expired,
    Forbidden,
    NotFound,
    SlowDown,
    StoreError,
    TargetRemoved,
    Unreachable,
)
from path_mapping.stores.blocking import run
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.stores.store import MOST_DELETED, Store
from path_mapping.stores.waits import elsewhere, pause

if TYPE_CHECKING:
    import tenacity

# Attempts at a request without a time limit.
ATTEMPTS = 5
# Seconds between two attempts, unless the service asks for more.
LONGEST_WAIT = 10.0
_NEEDS_LISTING = "a directory needs the permission to list the bucket (ListBucket)"

Result = TypeVar("Result")
Problem = TypeVar("Problem", bound=StoreError)


class RetryPolicy(NamedTuple):
    """Limits of the retries of a request that raises `Unreachable`.

    It is retried until it has failed for `seconds`, or five times if that is None, and not after `deadline`,
    a time of `time.monotonic`, which all processes of a machine share.
    """

    seconds: float | None = None
    deadline: float = math.inf

    def until(self, since: float) -> float:
        """Returns the time at which retries end of a request that first failed at `since`."""
        return min(self.deadline, since + (math.inf if self.seconds is None else self.seconds))

    def is_over(self, error: BaseException | None, attempts: int, since: float, now: float) -> bool:
        """Tells whether retries end; `seconds` apply to failures of the network only."""
        limited = self.seconds is None or isinstance(error, (Corrupted, TargetRemoved))
        return now >= self.until(since) or (limited and attempts >= ATTEMPTS)


class Trouble(NamedTuple):
    """A request that is being retried: its last error, and the times of its first failure and last retry.

    The times are those of `time.monotonic`; `until` is infinite if the number of attempts is limited.
    """

    error: str
    since: float
    until: float


Troubled = Callable[[Trouble], None]


def ignore_retry(trouble: Trouble) -> None:
    """Ignores retries: the default of `troubled`."""


def seconds_before(attempts: int, error: BaseException | None) -> float:
    """Returns the wait before the next attempt, after so many failures, the last one with this error."""
    import random  # slow to import

    asked = error.after if isinstance(error, SlowDown) and error.after else 0.0
    longest = min(LONGEST_WAIT, 0.3 * 2.0 ** min(attempts - 1, 10))
    return asked + random.uniform(longest / 10, longest)


class RetriedStore:
    """Methods of a store, which are retried after temporary failures; see `retrying`."""

    def __init__(
        self,
        store: Store,
        cancel: threading.Event | None = None,
        patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
        troubled: Troubled = ignore_retry,
    ) -> None:
        self.store = store
        self.cancel = cancel or threading.Event()
        self.patience, self.troubled = patience, troubled

    def retrying(self, work: Callable[[], Result]) -> Result:
        """Calls `work` until it does not raise `Unreachable`, or `patience` is over.

        The waits between attempts grow exponentially to their limit and are jittered, so that many clients do
        not come back together. They are at least as long as the service asks for with Retry-After, and end
        when `cancel` is set. Each error is passed to `troubled` as a `Trouble`. A wait for renewed
        credentials, see `Expired`, is not an attempt.

        Raises:
            Unreachable: the last attempt failed.
            Cancelled: `cancel` is set.
            Exception: anything else that `work` raises, at once.
        """

        async def attempt() -> Result:
            return work()

        return run(self.retrying_task(attempt, lambda error: None), self.cancel.wait)

    async def retrying_task(
        self, work: Callable[[], Awaitable[Result]], failed: Callable[[Unreachable], None]
    ) -> Result:
        """See `retrying`: the same for a task (see `stores.waits`). Each error is passed to `failed`, too."""
        since = math.nan

        async def attempt() -> Result:
            nonlocal since
            try:
                return await self._with_late_keys(work)
            except Unreachable as error:
                since = time.monotonic() if math.isnan(since) else since
                failed(error)
                self.troubled(Trouble(str(error), since, self.patience.until(since)))
                raise

        try:
            # Nearly always the only attempt: a policy of tenacity costs as much as a small request.
            return await attempt()
        except Unreachable as error:
            first = [error]

        async def again() -> Result:
            if first:
                raise first.pop()
            return await attempt()

        try:
            return await self._policy(since)(again)
        except Unreachable:
            self.check()
            raise

    async def _with_late_keys(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Waits for renewed credentials as often as it takes."""
        while True:
            self.check()
            try:
                return await work()
            except Expired as error:
                if error.wait is None:
                    raise
                waiting = partial(error.wait, self.cancel.wait)
                if not (await elsewhere(waiting, slow=True) or self.cancel.is_set()):
                    raise

    def _policy(self, since: float) -> tenacity.AsyncRetrying:
        """Returns the policy for a request that first failed at `since`."""
        import tenacity

        def seconds(state: tenacity.RetryCallState) -> float:
            left = self.patience.until(since) - time.monotonic()
            return max(0.0, min(seconds_before(state.attempt_number, error_of(state)), left))

        def is_over(state: tenacity.RetryCallState) -> bool:
            over = self.patience.is_over(error_of(state), state.attempt_number, since, time.monotonic())
            return self.cancel.is_set() or over

        def error_of(state: tenacity.RetryCallState) -> BaseException | None:
            return state.outcome.exception() if state.outcome is not None else None

        return tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Unreachable),
            stop=is_over,
            wait=seconds,
            sleep=pause,
            reraise=True,
        )

    def check(self) -> None:
        """Raises `Cancelled` if `cancel` is set."""
        if self.cancel.is_set():
            raise Cancelled

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.list`."""
        return self._resumed(partial(self.store.list, bucket, prefix))

    def listing(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """The same, but empty if there is no such bucket."""
        return _or_instead(self.list(bucket, prefix), NotFound, lambda error: [])

    def input_objects(self, bucket: str, key: str) -> Iterator[StoredObject]:
        """The objects of an input: see `listing`; where that is forbidden, the object of exactly this key.

        Raises `Forbidden` if there is none, as a directory cannot be read without a listing.
        """
        entries = self.listing(bucket, key)
        return _or_instead(entries, Forbidden, lambda error: [self.only_object(bucket, key, error)])

    def only_object(self, bucket: str, key: str, refusal: Forbidden) -> StoredObject:
        """Returns the object of exactly this key, whose listing got the `refusal`.

        Raises `Forbidden`, with the missing permission, for a directory and without such an object.
        """
        if not key or key.endswith("/"):
            raise Forbidden(f"{refusal}: {_NEEDS_LISTING}") from refusal
        try:
            state = self.find(bucket, key)
        except Forbidden as error:
            raise Forbidden(f"{refusal}: {_NEEDS_LISTING}; {error}") from error
        if state is None:
            raise Forbidden(f"{refusal}: {_NEEDS_LISTING}, and no object has this key") from refusal
        return StoredObject(key, state.size, state.sums.md5, state.version)

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.level`."""
        return self._resumed(partial(self.store.level, bucket, prefix))

    def _resumed(self, list_again: Callable[[], Iterator[StoredObject]]) -> Iterator[StoredObject]:
        """Yields the entries of a listing, which is resumed after the last key when it breaks off."""
        last = ""

        def start() -> tuple[list[StoredObject], Iterator[StoredObject]]:
            rest = (entry for entry in list_again() if entry.key > last)
            return list(islice(rest, 1)), rest

        while True:
            first, rest = self.retrying(start)
            try:
                for entry in chain(first, rest):
                    self.check()
                    last = entry.key
                    yield entry
                return
            # Resumed, until `retrying` fails before a further key.
            except (Unreachable, Expired):
                continue

    def find(self, bucket: str, key: str) -> ObjectState | None:
        """See `Store.find`."""
        return self.retrying(partial(self.store.find, bucket, key))

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        """See `Store.write_bytes`."""
        return self.retrying(partial(self.store.write_bytes, bucket, key, content))

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        """See `Store.copy`."""
        self.retrying(partial(self.store.copy, bucket, key, size, to_bucket=to_bucket, to_key=to_key))

    def delete(self, bucket: str, key: str) -> None:
        """See `Store.delete`."""
        self.retrying(partial(self.store.delete, bucket, key))

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """Deletes any number of objects, which need not exist."""
        for start in range(0, len(keys), MOST_DELETED):
            self.retrying(partial(self.store.delete_all, bucket, keys[start : start + MOST_DELETED]))

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        """See `Store.abort_parts`."""
        self.retrying(partial(self.store.abort_parts, bucket, key, upload))


def _or_instead(
    entries: Iterator[StoredObject],
    refusal: type[Problem],
    instead: Callable[[Problem], list[StoredObject]],
) -> Iterator[StoredObject]:
    """Yields the entries, or others if reading the first one was refused; later errors are raised."""
    try:
        first = list(islice(entries, 1))
    except refusal as error:
        first = instead(error)
    yield from first
    yield from entries
