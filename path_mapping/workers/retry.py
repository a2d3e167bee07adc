"""The only retries there are: the SDK's own are disabled, so that the two do not multiply."""

from __future__ import annotations

import math
import random
import threading
import time
from typing import TYPE_CHECKING, Callable, List, NamedTuple, Optional, TypeVar

from path_mapping.errors import Cancelled, Corrupted, Expired, SlowDown, TargetRemoved, Unreachable

if TYPE_CHECKING:
    import tenacity

ATTEMPTS = 5
LONGEST_WAIT = 10.0  # seconds between two attempts, unless the service asks for more

Result = TypeVar("Result")


class RetryPolicy(NamedTuple):
    """How long a request that raises `Unreachable` is retried.

    Until it has failed for `seconds`, and not after `deadline`, a time of `time.monotonic`, which all
    processes of a machine share. If `seconds` is None, five times.
    """

    seconds: Optional[float] = None
    deadline: float = math.inf

    def until(self, since: float) -> float:
        """When a request that first failed at `since` is given up."""
        return min(self.deadline, since + (math.inf if self.seconds is None else self.seconds))

    def is_over(self, error: Optional[BaseException], attempts: int, since: float, now: float) -> bool:
        """Whether a request that has failed so often is given up; only the network is waited for."""
        limited = self.seconds is None or isinstance(error, (Corrupted, TargetRemoved))
        return now >= self.until(since) or (limited and attempts >= ATTEMPTS)


class Trouble(NamedTuple):
    """A request that is being retried: its last error, when it first failed, and when it is given up.

    The times are those of `time.monotonic`; `until` is infinite if the number of attempts is limited.
    """

    error: str
    since: float
    until: float


Troubled = Callable[[Trouble], None]


def untold(trouble: Trouble) -> None:
    """The `Troubled` of those who do not want to know."""


def retrying(
    work: Callable[[], Result],
    cancel: threading.Event,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
    failed: Callable[[Unreachable], None] = lambda error: None,
    troubled: Troubled = untold,
) -> Result:
    """Calls `work` until it does not raise `Unreachable`, or `patience` is over.

    The waits between attempts grow exponentially to their limit and are jittered, so that many clients do not
    come back together. They are at least as long as the service asks for with Retry-After, and end when
    `cancel` is set. Each error is passed to `failed`, and to `troubled` with what is known about the retries.
    Expired credentials are waited for, see `Expired`; that is not an attempt.

    Raises:
        Unreachable: the last attempt failed.
        Cancelled: `cancel` is set.
        Exception: anything else that `work` raises, at once.
    """
    since = math.nan

    def attempt() -> Result:
        nonlocal since
        while True:
            if cancel.is_set():
                raise Cancelled
            try:
                return work()
            except Unreachable as error:
                since = time.monotonic() if math.isnan(since) else since
                failed(error)
                troubled(Trouble(str(error), since, patience.until(since)))
                raise
            except Expired as error:
                if error.wait is None or not (error.wait(cancel.wait) or cancel.is_set()):
                    raise

    try:
        return attempt()  # nearly always the only one: the policy is not even imported
    except Unreachable as error:
        first = [error]
    try:
        return _policy(cancel, patience, since)(lambda: _again(first, attempt))
    except Unreachable:
        if cancel.is_set():
            raise Cancelled from None
        raise


def _again(first: List[Unreachable], attempt: Callable[[], Result]) -> Result:
    """The outcome of the attempt that was made already, then new attempts."""
    if first:
        raise first.pop()
    return attempt()


def _policy(cancel: threading.Event, patience: RetryPolicy, since: float) -> tenacity.Retrying:
    import tenacity  # slow to import: only once something has failed

    def is_over(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        return cancel.is_set() or patience.is_over(error, state.attempt_number, since, time.monotonic())

    def seconds(state: tenacity.RetryCallState) -> float:
        return max(0.0, min(_seconds(state), patience.until(since) - time.monotonic()))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Unreachable),
        stop=is_over,
        wait=seconds,
        sleep=tenacity.sleep_using_event(cancel),
        reraise=True,
    )


def _seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.after if isinstance(error, SlowDown) and error.after else 0.0
    longest = min(LONGEST_WAIT, 0.3 * 2.0 ** min(state.attempt_number - 1, 10))
    return asked + random.uniform(longest / 10, longest)
