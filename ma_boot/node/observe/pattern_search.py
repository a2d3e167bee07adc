"""Looks for the user's patterns in a child process, `searching`, which a pattern that takes too long ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Callable, cast

from ma_boot.node.observe import searching
from ma_boot.node.observe.progress import Pattern


class PatternSearch:
    """Searches lines for patterns, for one thread; one that takes too long is dropped, and named by `say`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._dropped: set[Pattern] = set()
        self._process: subprocess.Popen[str] | None = None

    def last_value(self, pattern: Pattern, lines: Sequence[bytes]) -> float | None:
        """`searching.last_value`; None once the pattern is dropped.

        Raises:
            OSError: the process cannot be started.
        """
        if pattern in self._dropped:
            return None
        expression, *texts = (text.decode("latin-1") for text in (pattern.expression, *lines))
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", searching.__file__],
                env={}, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True, text=True,
            )  # fmt: skip
        requests, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        answer = ""
        with suppress(BrokenPipeError):
            requests.write(json.dumps([expression, texts]) + "\n")
            requests.flush()
            answer = answers.readline()
        if answer:
            value: float | None = json.loads(answer)
            return value
        code = self._process.wait()
        took = f"took more than {searching.SEARCH_SECONDS} s of CPU time"
        why = took if code == -signal.SIGPROF else f"ended with code {code}"
        self._say(f"--metric {pattern.names[0]} is no longer looked for: a search for {expression} {why}")
        self._dropped.add(pattern)
        self.close()
        return None

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError), self._process:  # of a request that it has not read
                self._process = None
