"""The only retries there are: those of the SDK are switched off, so that the two do not multiply."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Callable, List, TypeVar

from path_mapping.errors import Cancelled, SlowDown, Unreachable

if TYPE_CHECKING:
    import tenacity

ATTEMPTS = 5
LONGEST_WAIT = 10.0  # seconds between two attempts, if the service does not ask for more

Result = TypeVar("Result")


def retrying(
    work: Callable[[], Result],
    cancel: threading.Event,
    failed: Callable[[Unreachable], None] = lambda error: None,
) -> Result:
    """Tries again what `Unreachable` says may help: 5 attempts, some seconds in all, ended by `cancel`.

    The waits grow and are drawn by lot, so that many clients do not come back together; what the service
    asks for (Retry-After) is waited at least. `failed` hears of each failure.
    """

    def attempt() -> Result:
        if cancel.is_set():
            raise Cancelled("the transfer was given up")
        try:
            return work()
        except Unreachable as error:
            failed(error)
            raise

    try:
        return attempt()  # nearly always the only one: the policy is not even loaded
    except Unreachable as error:
        first = [error]
    try:
        return _policy(cancel)(lambda: _again(first, attempt))
    except Unreachable:
        if cancel.is_set():
            raise Cancelled("the transfer was given up") from None
        raise


def _again(first: List[Unreachable], attempt: Callable[[], Result]) -> Result:
    """The attempt that was made already, then new ones."""
    if first:
        raise first.pop()
    return attempt()


def _policy(cancel: threading.Event) -> tenacity.Retrying:
    import tenacity  # slow to import: only where something really fails

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
