"""What a running job does for its place in the store: notices other jobs there, removes what is too much."""

from __future__ import annotations

import time
from functools import partial
from typing import Sequence, Set

from path_mapping.checkpoints.publication import Publication
from path_mapping.sets import (
    Attempt,
    Documents,
    KnownSet,
    finish_removals,
    leftovers,
    remove_leftovers,
    remove_set,
    superfluous,
)
from path_mapping.workers import retrying

LOOK_AROUND_SECONDS = 30.0  # between two looks for other jobs: a request each
SPARED_SECONDS = 3600.0  # files that are younger may belong to a start that is not as dead as it seems


class Upkeep:
    """The upkeep of one output by node 0 of an attempt; the other nodes do nothing.

    A job notices a later one by its attempt, and says so to it: it writes `alive-...` beside the documents of
    the later attempt. So both know, and neither removes anything any more, as each takes the other's sets
    for its own past.
    """

    def __init__(self, what: Publication) -> None:
        self.what = what
        self.rivals: Set[Attempt] = set()  # of other starts that publish at the same time
        self._looked = time.monotonic()
        self._swept = False

    def look_around(self, documents: Documents, now: float) -> None:
        """Looks for other starts that use this place at the same time, now and then; `now` is in seconds.

        Raises `StoreError` and `Cancelled`.
        """
        if self.what.node == 0 and now - self._looked >= LOOK_AROUND_SECONDS:
            self._look(documents)
            self._looked = now

    def _look(self, documents: Documents) -> None:
        what = self.what
        for key in documents.keys(what.place.attempts):
            found = what.place.attempt_of(key)
            if found is None:
                continue
            attempt, name = found
            if attempt == what.attempt:
                alive = what.place.living(name)
                if alive is not None and alive not in self.rivals:
                    self.rivals.add(alive)
                    self._say(f"{alive} began before this start and still publishes")
            elif attempt.inverted > what.attempt.inverted:
                return  # earlier ones: who lives among them has said so
            elif attempt not in self.rivals and name == "begin.json":
                self._meet(attempt, documents)

    def _meet(self, later: Attempt, documents: Documents) -> None:
        """Another start has begun since this one."""
        what = self.what
        begin = documents.read(what.place.of_attempt(later, "begin.json"))
        job = begin.get("job") if isinstance(begin, dict) else None
        self.rivals.add(later)
        documents.write(what.place.of_attempt(later, f"alive-{what.attempt}.json"), {"job": what.job})
        of_job = f" of {job}" if job else ""
        self._say(
            f"{later}{of_job} has begun while this start still runs; the next start goes on from its sets, "
            "and from those of this start only as long as it has none"
        )

    def _say(self, who: str) -> None:
        what = self.what
        self.what.told(
            f"checkpoints: TWO STARTS PUBLISH TO {what.place}: {who}. This one is {what.attempt}. Two jobs "
            "must not share a URL ({job} in it keeps them apart); nothing is removed there any more"
        )

    def remove(self, found: Sequence[KnownSet], documents: Documents) -> None:
        """Removes what `keep` says of these sets, and once what dead starts have left.

        Raises `StoreError` and `Cancelled`.
        """
        what = self.what
        if any(one.name.attempt.inverted < what.attempt.inverted for one in found):
            self._look(documents)  # sets that are not this start's, and no earlier one's
        if self.rivals:
            return
        if not self._swept:
            finish_removals(documents, what.place)
            self._sweep(documents)
            self._swept = True
        spared = [what.resumed] if what.resumed is not None else []
        gone = superfluous(found, what.way.keep, spared)
        for known in (*gone.whole, *gone.broken):
            remove_set(documents, what.place, known)

    def _sweep(self, documents: Documents) -> None:
        """Removes the files of earlier attempts that no manifest names, by the store's clock alone."""
        what = self.what
        if what.attempt.number == 1:
            return
        found = leftovers(documents, what.place, lambda attempt: attempt.number < what.attempt.number)
        begin = what.place.of_attempt(what.attempt, "begin.json")
        find = partial(documents.store.find, what.place.bucket, begin)
        state = retrying(find, documents.cancel, documents.patience) if found else None
        if state is None:
            return
        before = state.mtime_ns / 1e9 - SPARED_SECONDS
        old = [one for one in found if one.stored < before]
        remove_leftovers(documents, old)
        if old:
            what.told(
                f"checkpoints: removed {len(old)} files of steps that an earlier start could not publish, "
                f"{sum(one.size for one in old):,} bytes"
            )
