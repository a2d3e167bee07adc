"""A node's record of its steps in one attempt, between two looks at the disk. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.steps import Files, NodeSteps, TakenStep


class StepLedger(NamedTuple):
    """The steps of a node in one attempt; each method returns the next state.

    A step's files pass through these sets, each by the number of the step:

        on the disk -> `rested` -> `versions` -> published
                                      |
                                      +-> `torn`, if an explicit step has changed during its upload

    `before` are the files at the beginning of the attempt: they belong to no step of it while they are as
    they were. `rested` are the files that have come to rest: one of them that is missing later was removed.
    `versions` are the versions of each step that were taken, the newest last; `newest` is the last taken step
    that has files. A step in `torn` has to have all these files when it is taken again.
    """

    before: Files
    rested: Mapping[int, frozenset[str]] = {}
    versions: Mapping[int, tuple[TakenStep, ...]] = {}
    torn: Mapping[int, frozenset[str]] = {}
    newest: TakenStep | None = None

    def changed(self, files: Files) -> list[str]:
        """Returns the paths that are not as they were at the beginning of the attempt."""
        return [path for path, state in files.items() if self.before.get(path) != state]

    def with_rested(self, layout: Layout, paths: Iterable[str]) -> StepLedger:
        """After a look that has found these files at rest."""
        rested = dict(self.rested)
        for step, of_step in layout.steps(paths).items():
            rested[step.number] = rested.get(step.number, frozenset()) | set(of_step)
        return self._replace(rested=rested)

    def with_taken(self, taken: TakenStep) -> StepLedger:
        """After a step was taken."""
        versions = (*self.versions.get(taken.step.number, ()), taken)
        state = self._replace(versions={**self.versions, taken.step.number: versions})
        return state._replace(newest=taken) if taken.files else state

    def without(self, taken: TakenStep) -> StepLedger:
        """After a step has changed during its upload: it will be taken anew when it is complete again."""
        number = taken.step.number
        kept = tuple(version for version in self.versions.get(number, ()) if version != taken)
        others = {other: versions for other, versions in self.versions.items() if other != number}
        return self._replace(versions={**others, number: kept} if kept else others)

    def with_torn(self, taken: TakenStep) -> StepLedger:
        """After an explicit step has changed during its upload."""
        number = taken.step.number
        torn = self.torn.get(number, frozenset()) | set(taken.files)
        return self._replace(torn={**self.torn, number: torn})

    def with_same_content(self, taken: TakenStep, published: TakenStep) -> StepLedger:
        """After a step was taken again with the content of a published version, which has its files now."""
        state = self.without(taken).without(published)
        same = TakenStep(published.step, published.version, published.is_explicit, taken.files)
        versions = (*state.versions.get(taken.step.number, ()), same)
        return state._replace(versions={**state.versions, taken.step.number: versions})

    def by_names(self, ranks: Collection[int], layout: Layout, alone: bool) -> NodeSteps:
        """Returns the knowledge that decides where names tell which files belong to a step."""
        shape = None
        if self.newest is not None:
            numbered = (path for path in self.newest.files if layout.step_of(path) is not None)
            shape = set(map(layout.shape, numbered)) or None
        return NodeSteps(
            ranks, self.before, self._newest_versions, shape=shape, rested=self.rested, alone=alone
        )

    def by_calls(self, ranks: Collection[int], alone: bool) -> NodeSteps:
        """Returns the knowledge that decides where the times of calls tell which files belong to a step."""
        return NodeSteps(ranks, self.before, self._newest_versions, rested=self.torn, alone=alone)

    @property
    def _newest_versions(self) -> dict[int, TakenStep]:
        return {number: versions[-1] for number, versions in self.versions.items()}
