"""A pool runs the units of a transfer, and reports their outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, List, NamedTuple

from path_mapping.stores.units import Unit


class Outcome(NamedTuple):
    """Result or error of a unit, and the number of its retries."""

    number: int
    value: Any
    error: BaseException | None
    retries: int


Outcomes = List[Outcome]
# Called with the number of a unit, and with the number of its bytes that were moved.
Moved = Callable[[int, int], None]


class Pool(ABC):
    """Runs units, of which outcomes come in any order; used by one thread."""

    @abstractmethod
    def wanted(self, left: int) -> int:
        """Returns the number of units to submit next, 0 for none; `left` files have not begun."""

    @abstractmethod
    def submit(self, units: list[Unit]) -> None:
        """Hands over units; returns at once."""

    @abstractmethod
    def outcomes(self, seconds: float) -> Outcomes:
        """Returns the outcomes since the last call; waits at most `seconds` for the first.

        Raises `WorkersLost` if no worker is left.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all work at once."""
