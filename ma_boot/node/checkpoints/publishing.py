"""A node's knowledge of its attempt's checkpoints in OBS: its own parts, and completeness. Pure.

    own part uploaded  -> `with_part`      completeness is open, peers' parts are looked for soon
    a listing          -> `with_listing`   the newest complete checkpoint; which savers lack parts, since when
    newest is complete -> older ones may be superseded: `Upkeep` removes them

The state never reads a clock: `now` is monotonic time in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.checkpoints.records.keys import CheckpointName, ListedCheckpoint, step_text
from ma_boot.node.checkpoints.records.manifest import CheckpointFile, Part
from ma_boot.node.checkpoints.steps import RunEnd, TakenStep

# Seconds; longest pause between two listings while the completeness of a published part is open.
LONGEST_PAUSE = 60.0


class PublishedStep(NamedTuple):
    """A version of a step that this node has published: as it was taken, and its part."""

    taken: TakenStep
    part: Part


class CompleteStep(NamedTuple):
    """The newest step known to be complete in OBS, and since when it is known."""

    step: str
    since: float


class MissingParts(NamedTuple):
    """Checkpoints, the newest first, that are incomplete because saver `node` has not published its part."""

    node: int
    checkpoints: Sequence[ListedCheckpoint]


class Publishing(NamedTuple):
    """State of one attempt on one node; each method returns the next state.

    `published` are the own steps by number, the newest version last. `newest` is the newest complete
    checkpoint of this attempt; `complete_step` also that of the checkpoint that the attempt has resumed from.
    `is_open`: a part was published, and it is not known yet whether its checkpoint is complete.
    `may_supersede`: older versions or checkpoints may be removed. `lacking_since` is the time since which
    savers lack several steps, infinite once that was reported. `looked` is the time of the last listing,
    `pause` the seconds until the next while `is_open`.
    """

    looked: float
    pause: float
    published: Mapping[int, tuple[PublishedStep, ...]] = {}
    newest: CheckpointName | None = None
    complete_step: CompleteStep | None = None
    is_open: bool = False
    may_supersede: bool = False
    lacking_since: Mapping[int, float] = {}

    @classmethod
    def begin(cls, resumed: CheckpointName | None, pause: float, now: float) -> Publishing:
        """Returns the state at the beginning of an attempt.

        The checkpoint resumed from is complete already: an attempt that makes no newer one has not advanced.
        """
        complete_step = None if resumed is None else CompleteStep(step_text(resumed.step), now)
        return cls(now, pause, complete_step=complete_step)

    def is_look_due(self, listing_pause: float, now: float) -> bool:
        """Returns whether it is time for another listing."""
        return now - self.looked >= (self.pause if self.is_open else listing_pause)

    def with_look(self, now: float) -> Publishing:
        """At a listing: the next pause is twice as long."""
        return self._replace(looked=now, pause=min(2 * self.pause, LONGEST_PAUSE))

    def with_part(self, published: PublishedStep, pause: float) -> Publishing:
        """After this node has published its part of a step."""
        number = published.taken.step.number
        versions = (*self.versions(number), published)
        return self._replace(
            published={**self.published, number: versions}, is_open=True, pause=pause, may_supersede=True
        )

    def with_complete(self, name: CheckpointName, now: float) -> Publishing:
        """After this checkpoint was found to be complete."""
        state = self._replace(is_open=False)
        if self.newest is not None and self.newest.order >= name.order:
            return state
        return state._replace(
            newest=name,
            may_supersede=True,
            complete_step=CompleteStep(step_text(name.step), now),
            lacking_since={},
        )

    def with_listing(self, listed: Iterable[ListedCheckpoint], now: float, has_ended: bool) -> ListingResult:
        """After a look through the newest checkpoints of this attempt, down to the first complete one."""
        state, newer = self, []
        for checkpoint in listed:
            if checkpoint.is_complete:
                state = state.with_complete(checkpoint.name, now)
                break
            newer.append(checkpoint)
        own = max(self.published, default=-1)
        is_open = any(checkpoint.name.step <= own for checkpoint in newer) and not has_ended
        return ListingResult(state._replace(is_open=is_open), newer)

    def with_missing(
        self, missing: Sequence[MissingParts], pause: float, own: int, ending: RunEnd | None, now: float
    ) -> tuple[Publishing, list[MissingParts]]:
        """After a listing with these missing parts; returns also those to report, each once.

        A saver that lacks a single step may be slow. One that lacks several steps for longer than `pause`, in
        seconds, or at the `ending`, keeps them from becoming complete. At a good end the peer may still
        publish its last step, and reports itself what it lacks: so a single step of a peer is no fault then.
        """
        since, due = dict(self.lacking_since), []
        for parts in missing:
            has_several = len({checkpoint.name.step for checkpoint in parts.checkpoints}) > 1
            began = since.setdefault(parts.node, now) if has_several else now
            is_final = ending is not None and (has_several or parts.node == own or ending is not RunEnd.WELL)
            if now - began >= pause or (is_final and parts.checkpoints and began <= now):
                since[parts.node] = math.inf
                due.append(parts)
        return self._replace(lacking_since=since), due

    def without_superseded(self) -> Publishing:
        """After superseded checkpoints were removed."""
        return self._replace(may_supersede=False)

    def versions(self, number: int) -> tuple[PublishedStep, ...]:
        """Returns the published versions of a step, the newest last."""
        return self.published.get(number, ())

    def has_replaced(self, number: int, keep: int | None) -> bool:
        """Returns whether `keep` newer steps make this step superfluous before it is uploaded."""
        complete = self.newest.step if self.newest else -1
        return (
            keep is not None and number < complete and sum(other > number for other in self.published) >= keep
        )

    def needs_removal(self, keep: int | None, ending: RunEnd | None) -> bool:
        """Returns whether superseded checkpoints have to be removed; not after a stop, when time is short."""
        has_versions = any(len(versions) > 1 for versions in self.published.values())
        is_wanted = has_versions or keep is not None
        return self.may_supersede and self.newest is not None and ending is not RunEnd.CUT and is_wanted

    @property
    def last_published(self) -> str:
        """The newest step of this node that is published; empty for none."""
        return self.published[max(self.published)][-1].taken.step.name if self.published else ""

    def taken_steps(self) -> Iterator[TakenStep]:
        """Returns the steps of this node that are published, with the states of their files."""
        return (one.taken for versions in self.published.values() for one in versions)


class ListingResult(NamedTuple):
    """The state after a listing, and the incomplete checkpoints newer than the newest complete one."""

    state: Publishing
    newer: Sequence[ListedCheckpoint]

    def missing_parts(self, savers: Sequence[int]) -> list[MissingParts]:
        """Returns for each saver the newer checkpoints that lack its part."""
        return [
            MissingParts(
                node,
                [one for one in self.newer if one.of == len(savers) and index in one.missing],
            )
            for index, node in enumerate(savers)
        ]


def has_same_content(files: Iterable[CheckpointFile], others: Iterable[CheckpointFile]) -> bool:
    """Returns whether two versions of a part have the same paths and contents."""
    first, second = ({(file.path, file.size, file.crc64) for file in part} for part in (files, others))
    return first == second
