"""Units of a transfer as tasks: attempts, retries, and the rate that the service asks for."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Callable

from path_mapping.errors import SlowDown, StoreError, Unreachable
from path_mapping.stores.units import Unit
from path_mapping.stores.waits import pause
from path_mapping.workers.pool import Moved, Outcome
from path_mapping.workers.rate_limit import RateLimit
from path_mapping.workers.retry import RetriedStore


class UnitTasks:
    """The tasks of one thread, see `stores.waits`.

    `moved` is called when bytes of a unit have moved, and `slowed` with the Retry-After of each SlowDown, if
    it has one.
    """

    def __init__(self, to: RetriedStore, moved: Moved, slowed: Callable[[float | None], None]) -> None:
        self._moved, self._slowed = moved, slowed
        self._stopping = threading.Event()
        # With an event of its own, which `stop` sets.
        self._to = RetriedStore(to.store, self._stopping, to.patience, to.troubled)
        self._runner = self._to.store.runner(self._stopping)
        self._rate = RateLimit()

    def slower(self, after: float | None) -> None:
        """Lowers the rate after a SlowDown."""
        self._rate.refused(time.monotonic(), after)

    async def run(self, unit: Unit) -> Outcome:
        """Runs a unit until it has ended; errors are part of the outcome."""
        retries = 0
        moved = partial(self._moved, unit.number)

        def failed(error: Unreachable) -> None:
            nonlocal retries
            retries += 1
            if isinstance(error, SlowDown):
                self.slower(error.after)
                self._slowed(error.after)

        async def attempt() -> Any:
            seconds = self._rate.delay(time.monotonic())
            if seconds > 0:
                import random  # slow to import

                await pause(seconds * random.uniform(1.0, 1.2))
            return await self._runner.run(unit, moved)

        try:
            value = await self._to.retrying_task(attempt, failed)
            return Outcome(unit.number, value, None, retries)
        except (StoreError, OSError) as error:
            return Outcome(unit.number, None, await self._runner.given_up(unit, error), retries)
        except Exception as error:  # the scheduler raises it again, unless it is of this file
            return Outcome(unit.number, None, error, retries)

    def stop(self) -> None:
        """Ends the waits between attempts, and the work of side threads."""
        self._stopping.set()

    def close(self) -> None:
        """Closes connections and directories, after the last task."""
        self._runner.close()
