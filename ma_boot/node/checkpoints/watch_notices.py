"""Lines about files that will be in no checkpoint, each printed once per attempt."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.steps import Decision
from ma_boot.wording import list_first

# Seconds without a file of any step; only then are the files named, as a first step may take long.
STRANGE_SECONDS = 600.0
# Files in such a line.
MOST_NAMED = 3


class WatchNotices:
    """Notices of one attempt."""

    def __init__(self, target: CheckpointRoute) -> None:
        self.has_named_strangers = False
        self._target = target
        self._began = time.monotonic()
        self._torn: set[int] = set()

    def is_late(self) -> bool:
        """Returns whether the attempt has run so long that a step is to be expected."""
        return time.monotonic() - self._began > STRANGE_SECONDS

    def name_strangers(self, files: Sequence[str], is_auto: bool) -> None:
        """Names files that belong to no step."""
        self.has_named_strangers = True
        names = " ".join(self._target.options.layout)
        problem = "show no step" if is_auto else f"are none of a step as {names!r} has them"
        self._target.say(
            f"checkpoints: the names of {list_first(files, MOST_NAMED)} in {self._target.route.local} "
            f"{problem}, so these files are in no checkpoint and no start resumes from them; they are "
            "uploaded as ordinary files. Call ma_boot.training.checkpoint(step) when a step is saved, or "
            "write a pattern, as in 'checkpoint': 'step_{step}'"
        )

    def name_torn_steps(self, decision: Decision) -> None:
        """Names explicit steps that cannot be published."""
        for step, reason in decision.waiting.items():
            if step in decision.lost and step.number not in self._torn:
                self._torn.add(step.number)
                self._target.say(f"checkpoint({step.name}) is not published: {reason}")
