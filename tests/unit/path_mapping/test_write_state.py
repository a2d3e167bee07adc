"""States of a file that replaces an object, and the uploads that follow from them."""

from __future__ import annotations

import pytest

from path_mapping.file.write_state import Phase, WriteState
from path_mapping.localfs.source_file import FileState

BOUND = WriteState().bind()
IN_BLOCK = BOUND.enter_block()
DROPPED = BOUND.drop(in_forked_child=False)
FAILED = IN_BLOCK.fail_block("ValueError")
LOST = BOUND.drop(in_forked_child=True)


@pytest.mark.parametrize(
    ("state", "phase", "on_flush"),
    [
        (WriteState(), Phase.UNBOUND, False),
        (BOUND, Phase.OPEN, True),
        (IN_BLOCK, Phase.IN_BLOCK, True),
        (DROPPED, Phase.DROPPED, False),
        (FAILED, Phase.FAILED, False),
        (LOST, Phase.LOST, False),
        (IN_BLOCK.close(), Phase.UNBOUND, False),
        (WriteState(Phase.OPEN, is_held=True), Phase.OPEN, False),
    ],
)
def test_flush_uploads_an_open_file_only(state: WriteState, phase: Phase, on_flush: bool) -> None:
    assert (state.phase, state.uploads_on_flush) == (phase, on_flush)


@pytest.mark.parametrize("state", [WriteState(), BOUND.close(), LOST])
def test_an_unbound_or_lost_file_has_no_object(state: WriteState) -> None:
    assert not state.has_object
    assert state.enter_block().fail_block("ValueError").phase is state.phase


@pytest.mark.parametrize("state", [BOUND, IN_BLOCK, DROPPED])
def test_close_uploads_a_file_that_did_not_fail(state: WriteState) -> None:
    assert state.has_object
    assert state.refusal == ""


@pytest.mark.parametrize(
    ("state", "refusal"),
    [
        (FAILED, "its `with` block ended by ValueError"),
        (IN_BLOCK.drop(in_forked_child=False), "its `with` block had not ended"),
        (FAILED.drop(in_forked_child=False), "its `with` block ended by ValueError"),
        (WriteState(Phase.OPEN, is_flushed=False), "not all of it could be written to the temporary file"),
        (WriteState(Phase.FAILED, "raised", is_flushed=False), "raised"),
    ],
)
def test_close_refuses_a_failed_or_incomplete_file_with_the_reason(state: WriteState, refusal: str) -> None:
    assert state.has_object
    assert state.refusal == refusal


def test_a_file_dropped_twice_in_a_forked_child_stays_lost() -> None:
    assert LOST.drop(in_forked_child=True).phase is Phase.LOST
    assert FAILED.drop(in_forked_child=True).phase is Phase.LOST


def test_an_unbound_file_cannot_be_dropped() -> None:
    assert WriteState().drop(in_forked_child=True) == WriteState()


def test_a_file_differs_from_its_object_until_this_state_is_uploaded() -> None:
    on_disk = FileState(size=1, mtime_ns=2, inode=3)
    uploaded = WriteState(Phase.OPEN, uploaded=on_disk)
    assert BOUND.differs_from(on_disk)
    assert not uploaded.differs_from(on_disk)
    assert uploaded.differs_from(FileState(size=1, mtime_ns=4, inode=3))
