"""The only retries there are: the SDK's own are disabled, so that the two do not multiply."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Callable, List, TypeVar

from path_mapping.errors import Cancelled, Expired, SlowDown, Unreachable

if TYPE_CHECKING:
    import tenacity

ATTEMPTS = 5
LONGEST_WAIT = 10.0  # seconds between two attempts, unless the service asks for more

Result = TypeVar("Result")


def retrying(
    work: Callable[[], Result],
    cancel: threading.Event,
    failed: Callable[[Unreachable], None] = lambda error: None,
) -> Result:
    """Calls `work` up to five times, as long as it raises `Unreachable`; passes each such error to `failed`.

    The waits between attempts grow exponentially and are jittered, so that many clients do not come back
    together. They are at least as long as the service asks for with Retry-After, and end when `cancel` is
    set. Expired credentials are waited for, see `Expired`; that is not an attempt.

    Raises:
        Unreachable: the last attempt failed.
        Cancelled: `cancel` is set.
        Exception: anything else that `work` raises, at once.
    """

    def attempt() -> Result:
        while True:
            if cancel.is_set():
                raise Cancelled
            try:
                return work()
            except Unreachable as error:
                failed(error)
                raise
            except Expired as error:
                if error.wait is None or not (error.wait(cancel.wait) or cancel.is_set()):
                    raise

    try:
        return attempt()  # nearly always the only one: the policy is not even imported
    except Unreachable as error:
        first = [error]
    try:
        return _policy(cancel)(lambda: _again(first, attempt))
    except Unreachable:
        if cancel.is_set():
            raise Cancelled from None
        raise


def _again(first: List[Unreachable], attempt: Callable[[], Result]) -> Result:
    """The outcome of the attempt that was made already, then new attempts."""
    if first:
        raise first.pop()
    return attempt()


def _policy(cancel: threading.Event) -> tenacity.Retrying:
    import tenacity  # slow to import: only once something has failed

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Unreachable),
        stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_when_event_set(cancel),
        wait=_seconds,
        sleep=tenacity.sleep_using_event(cancel),
        reraise=True,
    )


def _seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.after if isinstance(error, SlowDown) and error.after else 0.0
    longest = min(LONGEST_WAIT, 0.3 * 2.0 ** (state.attempt_number - 1))
    return asked + random.uniform(longest / 10, longest)
