"""Choice of the checkpoints that are removed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, ListedCheckpoint, PartKey
from ma_boot.node.checkpoints.records.retention import find_superfluous

FIRST, SECOND = Attempt(1, "aaaa"), Attempt(2, "bbbb")


def listed(attempt: Attempt, step: int, *savers: int, version: int = 1) -> ListedCheckpoint:
    """A checkpoint of two savers, complete if both are named."""
    name = CheckpointName(attempt, step, version)
    return ListedCheckpoint(name, tuple(PartKey(name, saver, 2) for saver in savers))


def removed(
    checkpoints: Sequence[ListedCheckpoint], keep: int | None, *spared: CheckpointName
) -> tuple[list[str], list[str]]:
    """The complete and the incomplete checkpoints that are removed, as text."""
    found = find_superfluous(checkpoints, keep, spared)
    return [str(one.name) for one in found.complete], [str(one.name) for one in found.incomplete]


def test_older_complete_checkpoints_are_removed() -> None:
    checkpoints = [listed(FIRST, step, 0, 1) for step in (30, 20, 10)]
    assert removed(checkpoints, 1) == ([str(checkpoints[1].name), str(checkpoints[2].name)], [])
    assert removed(checkpoints, 2) == ([str(checkpoints[2].name)], [])
    assert removed(checkpoints, None) == ([], [])


def test_checkpoint_that_is_spared_stays() -> None:
    checkpoints = [listed(FIRST, step, 0, 1) for step in (30, 20, 10)]
    assert removed(checkpoints, 1, checkpoints[2].name) == ([str(checkpoints[1].name)], [])


def test_newest_complete_checkpoint_stays_although_a_newer_one_is_incomplete() -> None:
    assert removed([listed(FIRST, 20, 0), listed(FIRST, 10, 0, 1)], 1) == ([], [])


@pytest.mark.parametrize("keep", [None, 1])
def test_incomplete_checkpoint_of_the_running_attempt_stays(keep: int | None) -> None:
    """Its other parts may still be uploaded."""
    assert removed([listed(SECOND, 30, 0, 1), listed(SECOND, 20, 0)], keep) == ([], [])


def test_incomplete_checkpoint_goes_when_a_later_attempt_has_a_complete_one() -> None:
    old = listed(FIRST, 40, 0)
    assert removed([listed(SECOND, 30, 0, 1), old], None) == ([], [str(old.name)])
    assert removed([listed(SECOND, 30, 0), old], None) == ([], [])


def test_older_version_of_a_step_goes_when_a_newer_one_is_complete() -> None:
    newer, complete, incomplete = (
        listed(FIRST, 10, 0, 1, version=3),
        listed(FIRST, 10, 0, 1, version=2),
        listed(FIRST, 10, 0, version=1),
    )
    assert removed([newer, complete, incomplete], None) == ([str(complete.name)], [str(incomplete.name)])
    half = listed(FIRST, 10, 0, version=3)
    assert removed([half, complete], None) == ([], [])
