"""What a running job does for its place in the store: notices other starts, removes what is too much."""

from __future__ import annotations

import time

from ma_boot.node.checkpoints.keys import Attempt, KnownSet
from ma_boot.node.checkpoints.publication import Publication
from ma_boot.node.checkpoints.retention import finish_removals, leftovers, remove_set, superfluous
from ma_boot.node.checkpoints.sets import Documents
from ma_boot.wording import ProgressLine

SPARED_SECONDS = 3600.0  # files that are younger may belong to a start that is not as dead as it seems
ANSWER_LOOKS = 2  # pauses in which an earlier start that still runs notices this one, and says so


class Upkeep:
    """The upkeep of one output, for the most part by node 0 of an attempt.

    A start notices a later one by its attempt, and says so to it: it writes `alive-...` beside the documents
    of the later attempt. So both know, and neither removes anything of the other.
    """

    def __init__(self, what: Publication) -> None:
        self.what = what
        self.rivals: set[Attempt] = set()  # of other starts that publish at the same time
        # Of attempts that this process has begun after this one: a restart in place that did not come about.
        self.own_boots: set[str] = set()
        # Sets of earlier attempts, once it is known that these are over.
        self._older: list[KnownSet] | None = None
        self._began = self._looked = time.monotonic()

    def find_rivals(self, documents: Documents) -> None:
        """Looks for other starts that use this place at the same time, now and then.

        Raises `StoreError` and `Cancelled`.
        """
        what, now = self.what, time.monotonic()
        if what.start.node != 0 or now - self._looked < what.pause:
            return
        for key in documents.keys(what.place.attempts):
            document = what.place.attempt_of(key)
            if document is None:
                continue
            attempt, name = document
            if attempt == what.attempt:
                alive = what.place.living(name)
                if alive is not None and alive not in self.rivals:
                    self.rivals.add(alive)
                    self._say(f"{alive} began before this start and still publishes")
            elif attempt.inverted > what.attempt.inverted:
                break  # earlier ones: who lives among them has said so
            elif attempt not in self.rivals and name == "begin.json":
                self._answer(attempt, documents)
        self._looked = now

    def _answer(self, later: Attempt, documents: Documents) -> None:
        """Another start has begun since this one."""
        what = self.what
        begin = documents.read(what.place.of_attempt(later, "begin.json"))
        if not isinstance(begin, dict) or "refused" in begin or begin.get("boot") in self.own_boots:
            return
        self.rivals.add(later)
        documents.write(what.place.of_attempt(later, f"alive-{what.attempt}.json"), {"job": what.start.job})
        of_job = f" of {begin['job']}" if begin.get("job") else ""
        self._say(
            f"{later}{of_job} has begun while this start still runs; the next start resumes from its sets, "
            "and from those of this start only as long as it has none"
        )

    def _say(self, who: str) -> None:
        what = self.what
        what.say(
            f"checkpoints: TWO STARTS PUBLISH TO {what.place}: {who}. This one is {what.attempt}. Two jobs "
            "must not share a URL ({job} in it keeps them apart); neither removes anything of the other"
        )

    def remove(self, documents: Documents) -> None:
        """Removes what is too much: of this attempt, and of earlier ones once they are known to be over.

        One listing, of this attempt alone, but for the first time. Raises `StoreError` and `Cancelled`.
        """
        what = self.what
        if what.start.node != 0:
            return
        is_over = time.monotonic() - self._began >= ANSWER_LOOKS * what.pause and not self.rivals
        if what.options.keep is not None and self._older is None and (is_over or what.attempt.number == 1):
            self._older = self._earlier(documents) if what.attempt.number > 1 else []
        own = list(documents.known_sets(what.attempt))
        older = [] if self.rivals else self._older or []
        gone = superfluous([*own, *older], what.options.keep, [what.resumed] if what.resumed else [])
        for known in (*gone.whole, *gone.broken):
            remove_set(documents, known, own)
        if self._older:
            removed = {known.name for known in (*gone.whole, *gone.broken)}
            self._older = [known for known in self._older if known.name not in removed]

    def _earlier(self, documents: Documents) -> list[KnownSet]:
        """The sets of earlier attempts, once what interrupted removals and killed steps have left is gone."""
        what = self.what
        finish_removals(documents)
        self._sweep(documents)
        return [known for known in documents.known_sets() if known.name.attempt.number < what.attempt.number]

    def _sweep(self, documents: Documents) -> None:
        """Removes the files of earlier attempts that no manifest names, by the store's clock alone."""
        what = self.what
        files = leftovers(documents, lambda attempt: attempt.number < what.attempt.number)
        state = documents.find(what.place.of_attempt(what.attempt, "begin.json")) if files else None
        if state is None:
            return
        old = [file for file in files if file.stored < state.mtime_ns / 1e9 - SPARED_SECONDS]
        for file in old:
            documents.delete(file.key)
        if old:
            removed = f"{len(old)} files of steps that an earlier start could not publish"
            size = sum(file.size for file in old)
            what.say(ProgressLine(f"checkpoints: removed {removed}, {size:,} bytes"))
