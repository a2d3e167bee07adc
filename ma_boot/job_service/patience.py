"""Calls that are repeated while the service is busy or does not answer, for as long as that takes."""

from __future__ import annotations

import random
from typing import Any, Callable, Optional, TypeVar

from ma_boot.job_service.api import JobApi, ServiceBusy, ServiceRefused

Answer = TypeVar("Answer")
LONGEST_PAUSE = 60.0
FIRST_ANSWER_SECONDS = 60.0  # after which a service that has never answered is taken for a wrong endpoint
_SHORTEST_PAUSE = 1.0


class PatientApi:
    """An API whose calls are repeated, and which is opened again once if credentials have expired.

    `pause` sleeps for some seconds; `say` is told once when calls begin to fail, and when they work again.
    """

    def __init__(
        self,
        open_api: Callable[[], JobApi],
        say: Callable[[str], None],
        pause: Callable[[float], None],
        seconds: float = _SHORTEST_PAUSE,
    ) -> None:
        self.api = open_api()
        self._open, self._say, self._pause, self._first = open_api, say, pause, seconds
        self._refused = False
        self._answered = False

    def call(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """The answer of `ask(api, *arguments)`, which changes nothing and so may be asked again.

        Raises:
            ServiceBusy: the service has never answered.
            ServiceRefused: it refuses the credentials, also after they were read again.
        """
        pause, trouble, waited = self._first, "", 0.0
        while True:
            error: Optional[Exception] = None
            try:
                answer = ask(self.api, *arguments)
            except ServiceBusy as busy:
                error = busy
            except ServiceRefused:
                if self._refused:
                    raise
                self._refused = True  # keys that have expired may have been renewed where they are from
                self.api = self._open()
                continue
            if error is None:
                self._refused, self._answered = False, True
                if trouble:
                    self._say("ModelArts answers again")
                return answer
            if not self._answered and waited >= FIRST_ANSWER_SECONDS:
                raise error
            if not trouble:
                trouble = str(error)
                self._say(f"{trouble}; trying again until it answers, the job goes on")
            self._pause(pause * random.uniform(0.5, 1.0))
            waited += pause
            pause = min(2 * pause, LONGEST_PAUSE)
