"""Runs one task in the calling thread: for listings, single requests and `path_mapping.file`."""

from __future__ import annotations

import select
import time
from typing import Any, Callable, Coroutine, Generic, TypeVar

from path_mapping.stores.waits import Elsewhere, Pause, Wait

Result = TypeVar("Result")
Task = Coroutine[Wait, Any, Result]


def run(task: Task[Result], sleep: Callable[[float], object] = time.sleep) -> Result:
    """Returns the result of a task, or raises its exception."""
    return Begun(task).result(sleep)


class Begun(Generic[Result]):
    """A task that has run until its first wait, such as that for the response to a request."""

    def __init__(self, task: Task[Result]) -> None:
        self._task = task
        self._wait: Wait | None = None
        self._result: Any = None
        self._problem: Exception | None = None
        try:
            self._resume(None)
        except Exception as error:
            self._problem = error

    def result(self, sleep: Callable[[float], object] = time.sleep) -> Result:
        """Runs the task to its end; raises its exception, also that of its beginning."""
        if self._problem is not None:
            raise self._problem
        while self._wait is not None:
            try:
                answer = _waited(self._wait, sleep)
            except Exception as error:
                self._resume(error)
            except BaseException:  # Ctrl-C
                self.close()
                raise
            else:
                self._resume(answer)
        result: Result = self._result
        return result

    def close(self) -> None:
        """Gives the task up."""
        self._task.close()

    def _resume(self, answer: Any) -> None:
        try:
            failed = isinstance(answer, Exception)
            self._wait = self._task.throw(answer) if failed else self._task.send(answer)
        except StopIteration as end:
            self._wait, self._result = None, end.value


def _waited(wait: Wait, sleep: Callable[[float], object]) -> Any:
    if isinstance(wait, Elsewhere):
        return wait.work()
    if isinstance(wait, Pause):
        sleep(wait.seconds)
        return None
    poll = select.poll()
    poll.register(wait.line.socket, wait.events)
    came = poll.poll(wait.seconds * 1000)
    return came[0][1] if came else 0
