"""Failures reported by the nodes of a job, and the root cause by them."""

from __future__ import annotations

from typing import Any

import pytest

from ma_boot.errors import ExitCode
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.failure_book import FailureBook, RankOwners, reports_failure
from ma_boot.node.peers.failure_message import failures_body
from ma_boot.report.cause import LOST_PEER, RAISED, Cause

# Three nodes of two ranks each; the book is that of node 0 unless a test says otherwise.
OWNERS = RankOwners.of(0, 3, (0, 1), 6)
RAISED_HERE = Cause(0, 1, 1, "ValueError: bad label", at=7.0)
RAISED_ON_2 = Cause(2, 4, 1, "KeyError: 'x'", at=6.0)
LOST_ON_1 = Cause(1, 2, 1, "Connection reset by peer", at=5.0, evidence=LOST_PEER)
HANG = Cause(1, 3, ExitCode.HUNG, "it hung: waits for none", at=9.0)
STOPPED_FOR_HANG = Cause(1, None, ExitCode.HUNG, "the ranks hung", at=9.0)


def message(node: int, kind: str, *failures: Cause, **fields: Any) -> PeerMessage:
    return PeerMessage(node, kind, {**failures_body(failures), **fields}, 0.0)


def book_of(*failures: Cause, node: int = 0) -> FailureBook:
    """The book of a node after a report of each failure by its own node."""
    book = FailureBook(node)
    for failure in failures:
        book = book.with_message(message(failure.node, "failed", failure), 1, OWNERS)
    return book


def test_own_exception_is_the_root_cause_before_an_earlier_lost_peer() -> None:
    assert book_of(LOST_ON_1).root_cause(1, [RAISED_HERE]) == RAISED_HERE


def test_earliest_exception_of_all_nodes_is_the_root_cause() -> None:
    assert book_of(LOST_ON_1, RAISED_ON_2).root_cause(1, [RAISED_HERE]) == RAISED_ON_2


def test_no_failure_has_no_root_cause() -> None:
    assert FailureBook().root_cause(1, []) is None


def test_lost_node_is_the_root_cause_of_ranks_that_lost_a_peer() -> None:
    cause = book_of(LOST_ON_1).root_cause(1, [], lost={2})
    assert cause is not None
    assert (cause.node, cause.rank, cause.code) == (2, None, 1)


def test_later_report_of_a_node_replaces_its_earlier_one() -> None:
    book = book_of(LOST_ON_1, LOST_ON_1._replace(words="ValueError: late", evidence=RAISED, at=6.0))
    assert [failure.words for failure in book.of_peers(1)] == ["ValueError: late"]


@pytest.mark.parametrize(
    ("own", "named", "expected"),
    [
        ([], RAISED_ON_2, RAISED_ON_2),
        ([LOST_ON_1], RAISED_ON_2, RAISED_ON_2),
        ([RAISED_HERE._replace(node=1, rank=3)], RAISED_ON_2, RAISED_ON_2),
        ([RAISED_HERE._replace(node=1, rank=3)], LOST_ON_1, RAISED_HERE._replace(node=1, rank=3)),
    ],
)
def test_root_cause_of_node_0_takes_precedence_unless_own_evidence_is_better(
    own: list[Cause], named: Cause, expected: Cause
) -> None:
    owners = RankOwners.of(1, 3, (2, 3), 6)
    book = FailureBook(1).with_message(message(0, "cause", named), 1, owners)
    assert book.root_cause(1, own) == expected


def test_suspect_of_a_hang_is_named_instead_of_ranks_stopped_for_it() -> None:
    assert book_of(STOPPED_FOR_HANG).root_cause(1, [], hang=HANG) == HANG
    assert FailureBook().root_cause(1, [], hang=HANG, is_hung=True) == HANG


def test_suspect_of_a_hang_that_has_ended_no_node_is_no_root_cause() -> None:
    assert FailureBook().root_cause(1, [], hang=HANG) is None


def test_exit_code_of_a_hung_node_is_enough_for_the_suspect() -> None:
    left = message(1, "left", code=int(ExitCode.HUNG))
    assert FailureBook().with_message(left, 1, OWNERS).root_cause(1, [], hang=HANG) == HANG


def test_exception_is_the_root_cause_before_a_hang() -> None:
    assert book_of(RAISED_ON_2).root_cause(1, [], hang=HANG, is_hung=True) == RAISED_ON_2


def test_ranks_that_lose_their_peers_when_a_hang_is_stopped_are_consequences() -> None:
    assert book_of(LOST_ON_1).root_cause(1, [], hang=HANG) == HANG
    assert book_of(LOST_ON_1, STOPPED_FOR_HANG._replace(node=2)).root_cause(
        1, []
    ) == STOPPED_FOR_HANG._replace(node=2)
    lost_here = LOST_ON_1._replace(node=0, rank=1)
    assert book_of(STOPPED_FOR_HANG).root_cause(1, [lost_here], hang=HANG) == HANG
    assert book_of(LOST_ON_1).root_cause(1, [], hang=HANG, is_hung=True) == HANG


def test_failures_of_another_attempt_do_not_belong_to_this_one() -> None:
    book = FailureBook()
    for attempt in (1, 3, 4):
        book = book.with_message(message(1, "failed", LOST_ON_1, attempt=attempt), 2, OWNERS)
    assert book.of_peers(2) == []
    assert book.of_peers(3) == [LOST_ON_1], "a peer may be one attempt ahead"
    assert (book.of_peers(1), book.of_peers(4)) == ([], [])


def test_invalid_report_and_message_on_hangs_change_nothing() -> None:
    foreign = message(1, "failed", RAISED_ON_2)
    for invalid in (foreign, PeerMessage(1, "failed", {}, 0.0), message(1, "hanging", LOST_ON_1)):
        assert FailureBook().with_message(invalid, 1, OWNERS) == FailureBook()


def test_first_failure_elsewhere_leaves_out_failures_of_this_node() -> None:
    book = FailureBook(2).with_message(message(0, "cause", RAISED_ON_2), 1, RankOwners.of(2, 3, (4, 5), 6))
    assert book.first_elsewhere(1) is None
    lost = book.first_elsewhere(1, lost=[1])
    assert lost is not None
    assert lost.node == 1


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("failed", {}, True),
        ("cause", {"attempt": 2}, True),
        ("go", {"attempt": 2}, True),
        ("failed", {"attempt": 1}, False),
        ("stopped", {"attempt": 2}, False),
    ],
)
def test_report_of_this_attempt_is_recognised(kind: str, fields: dict[str, Any], expected: bool) -> None:
    assert reports_failure(PeerMessage(1, kind, fields, 0.0), 2) is expected


def test_ranks_follow_the_nodes_if_all_nodes_have_as_many() -> None:
    assert [[node for node in range(3) if OWNERS.has_rank(node, rank)] for rank in (0, 3, 5, 6)] == [
        [0], [1], [2], [],
    ]  # fmt: skip


def test_any_other_rank_may_belong_to_a_peer_if_nodes_differ() -> None:
    owners = RankOwners.of(0, 3, (0, 1), 5)
    assert [owners.has_rank(2, rank) for rank in (-1, 0, 1, 2)] == [False, False, False, True]
