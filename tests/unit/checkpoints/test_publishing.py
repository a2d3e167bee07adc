"""A node's knowledge of the checkpoints of its attempt, and its record of steps, as values."""

from __future__ import annotations

from ma_boot.node.checkpoints.layouts.layout import TrainingStep
from ma_boot.node.checkpoints.layouts.recognition import pattern_layout
from ma_boot.node.checkpoints.publishing import LONGEST_PAUSE, PublishedStep, Publishing
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, ListedCheckpoint, PartKey
from ma_boot.node.checkpoints.records.manifest import Part
from ma_boot.node.checkpoints.step_ledger import StepLedger
from ma_boot.node.checkpoints.steps import RunEnd, TakenStep
from path_mapping.localfs.source_file import FileState

ATTEMPT = Attempt(1, "aaaa")
FILES = {"iter_10/a": FileState(1, 1, 1)}
PAUSE = 30.0


def taken(number: int, version: int = 1) -> TakenStep:
    return TakenStep(TrainingStep(number, str(number)), version, False, FILES)


def published(number: int, version: int = 1) -> PublishedStep:
    name = CheckpointName(ATTEMPT, number, version)
    return PublishedStep(taken(number, version), Part(name, str(number), JobMember(0, 2), "", ()))


def listed(number: int, *savers: int) -> ListedCheckpoint:
    name = CheckpointName(ATTEMPT, number)
    return ListedCheckpoint(name, tuple(PartKey(name, saver, 2) for saver in savers))


def begun() -> Publishing:
    return Publishing.begin(None, 5.0, now=0.0)


def test_checkpoint_resumed_from_is_complete_already() -> None:
    state = Publishing.begin(CheckpointName(Attempt(1, "aaaa"), 40), 5.0, now=7.0)
    assert state.complete_step == ("40", 7.0)
    assert state.newest is None


def test_listings_are_frequent_while_completeness_is_open_and_pauses_double() -> None:
    state = begun()
    assert not state.is_look_due(PAUSE, 29.0)
    state = state.with_part(published(10), 5.0)
    assert state.is_look_due(PAUSE, 5.0)
    for _ in range(9):
        state = state.with_look(5.0)
    assert state.pause == LONGEST_PAUSE


def test_newest_complete_checkpoint_of_a_listing_closes_the_question() -> None:
    state = begun().with_part(published(10), 5.0).with_part(published(20), 5.0)
    result = state.with_listing([listed(20, 0), listed(10, 0, 1)], 9.0, has_ended=False)
    assert result.state.complete_step == ("10", 9.0)
    assert result.state.is_open, "step 20 lacks a part"
    done = result.state.with_listing([listed(20, 0, 1)], 12.0, has_ended=False)
    assert (done.state.complete_step, done.state.is_open) == (("20", 12.0), False)


def test_saver_that_lacks_several_steps_is_reported_once_after_a_pause() -> None:
    state = begun()
    listing = [listed(20, 0), listed(10, 0)]
    reports = []
    for now in (0.0, 29.0, 30.0, 99.0):
        result = state.with_listing(listing, now, has_ended=False)
        missing = result.missing_parts((0, 1))
        state, due = result.state.with_missing(missing, PAUSE, own=0, ending=None, now=now)
        reports.append([parts.node for parts in due])
    assert reports == [[], [], [1], []]


def test_single_missing_step_of_a_peer_is_reported_only_after_a_bad_end() -> None:
    for ending, expected in ((None, []), (RunEnd.WELL, []), (RunEnd.CUT, [1])):
        result = begun().with_listing([listed(20, 0)], 5.0, has_ended=ending is not None)
        missing = result.missing_parts((0, 1))
        _, due = result.state.with_missing(missing, PAUSE, own=0, ending=ending, now=5.0)
        assert [parts.node for parts in due] == expected


def test_superseded_checkpoints_are_removed_with_keep_or_versions_but_not_after_a_kill() -> None:
    state = begun().with_part(published(10), 5.0).with_complete(CheckpointName(ATTEMPT, 10), 6.0)
    assert state.needs_removal(3, None)
    assert not state.needs_removal(None, None)
    assert not state.needs_removal(3, RunEnd.CUT)
    assert not state.without_superseded().needs_removal(3, None)
    again = state.with_part(published(10, 2), 5.0)
    assert again.needs_removal(None, None)
    assert again.last_published == "10"


def test_without_a_complete_checkpoint_nothing_is_removed() -> None:
    assert not begun().with_part(published(10), 5.0).needs_removal(3, None)


def test_older_complete_checkpoint_does_not_replace_a_newer_one() -> None:
    """Listings of a store may be stale."""
    newer = begun().with_part(published(20), 5.0).with_complete(CheckpointName(ATTEMPT, 20), 6.0)
    state = newer.with_complete(CheckpointName(ATTEMPT, 10), 9.0)
    assert (state.newest, state.complete_step) == (newer.newest, ("20", 6.0))


def test_step_that_changed_during_its_upload_is_forgotten_and_torn_files_stay_known() -> None:
    ledger = StepLedger({}).with_taken(taken(10)).with_taken(taken(10, 2))
    ledger = ledger.with_torn(taken(10, 2)).without(taken(10, 2))
    assert [step.version for step in ledger.versions[10]] == [1]
    assert ledger.torn == {10: {"iter_10/a"}}
    assert ledger.without(taken(10)).versions == {}


def test_version_with_the_same_content_takes_over_the_new_states() -> None:
    rewritten = TakenStep(TrainingStep(10, "10"), 2, False, {"iter_10/a": FileState(1, 9, 1)})
    ledger = StepLedger({}).with_taken(taken(10)).with_taken(rewritten)
    ledger = ledger.with_same_content(rewritten, taken(10))
    assert [(step.version, step.files) for step in ledger.versions[10]] == [(1, rewritten.files)]


def test_ledger_knows_rested_files_and_the_shape_of_the_last_step() -> None:
    layout = pattern_layout(["iter_{step}"])
    ledger = StepLedger({}).with_rested(layout, ["iter_10/a"]).with_rested(layout, ["iter_10/b"])
    known = ledger.with_taken(taken(10)).by_names((0,), layout, alone=True)
    assert known.rested == {10: {"iter_10/a", "iter_10/b"}}
    assert known.shape == {"iter_*/a"}
    assert known.removed(10, ["iter_10/a"]) == {"iter_10/b"}
