"""The collection of stacks: deadlines, messages of peers, and the conclusion."""

from __future__ import annotations

from typing import Any

import pytest

from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.rank_stacks.stacks import Fold, RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_messages import decode_report, encode_ranks, encode_report
from ma_boot.node.observe.rank_stacks.stacks_protocol import StacksExchange
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport
from ma_boot.report.result import HangSuspect

BEGAN = 1000.0


class TwoRanksEach:
    """The ranks of a job with two ranks a node."""

    node = 0
    others = (1, 2)
    unreached = ()
    leader_exit = None

    def has_rank(self, node: int, rank: int) -> bool:
        return rank // 2 == node

    def tell(self, kind: str, body: object) -> None:
        raise NotImplementedError

    heard = heard_of_saves = heard_of_ranks = tell


PEERS: Any = TwoRanksEach()


def stacks(node: int, *ranks: int, when: float = BEGAN) -> PeerMessage:
    """The message with the stacks of a node's ranks."""
    return PeerMessage(node, "stacks", encode_ranks([RankAtHang(rank, node, "s") for rank in ranks]), when)


def ended(node: int, *codes: tuple[int, int], when: float = BEGAN) -> PeerMessage:
    """The message with the exit codes of a node's ranks."""
    return PeerMessage(node, "ended", {"codes": codes}, when)


def exchange(node: int = 0, *others: int, own: bool = True) -> StacksExchange:
    """A collection that has begun, with or without the own stacks."""
    state = StacksExchange(node, BEGAN, frozenset(others or (1, 2)))
    return state.with_own([]) if own else state


def test_node_0_waits_nine_seconds_for_its_peers() -> None:
    state = exchange()
    assert state.patience(BEGAN) == 9
    assert not state.is_finished(BEGAN + 8.9, unreached=())
    assert state.is_finished(BEGAN + 9, unreached=())
    assert state.patience(BEGAN + 20) == 0


def test_other_node_waits_a_moment_longer_for_the_report() -> None:
    state = exchange(1, 0)
    assert not state.is_finished(BEGAN + 9.6, unreached=())
    assert state.is_finished(BEGAN + 9.7, unreached=())


def test_unreachable_peers_are_awaited_four_seconds() -> None:
    assert not exchange().is_finished(BEGAN + 3.9, unreached=(1, 2))
    assert exchange().is_finished(BEGAN + 4, unreached=(1, 2, 7))
    assert not exchange().is_finished(BEGAN + 8, unreached=(2,)), "node 1 may still answer"


def test_own_stacks_are_awaited_although_all_peers_have_answered() -> None:
    state = exchange(own=False).received(stacks(1), PEERS).received(stacks(2), PEERS)
    assert not state.is_finished(BEGAN + 5, unreached=())
    assert state.patience(BEGAN) == 12
    assert state.with_own([]).is_finished(BEGAN + 5, unreached=())


def test_answers_of_all_peers_end_the_collection() -> None:
    state = exchange().received(stacks(1, 2, 3), PEERS)
    assert not state.is_finished(BEGAN, unreached=())
    state = state.received(ended(2, (4, 0), (5, 0)), PEERS)
    assert state.is_finished(BEGAN, unreached=())
    folds = [(fold.ranks, fold.stack) for fold in state.conclusion(()).folded]
    assert folds == [((2, 3), "s"), ((4, 5), "has ended with exit code 0")]


@pytest.mark.parametrize(
    "message",
    [
        stacks(7, 14),
        stacks(1, 4),
        stacks(1, 2, when=BEGAN - 9.1),
        PeerMessage(1, "stacks", {"ranks": 7}, BEGAN),
        PeerMessage(1, "stacks_report", {"folded": 7}, BEGAN),
        PeerMessage(1, "hanging", {}, BEGAN),
    ],
    ids=[
        "of no peer",
        "with a rank of another node",
        "of an earlier hang",
        "malformed",
        "no report",
        "other kind",
    ],
)
def test_unexpected_messages_are_ignored(message: PeerMessage) -> None:
    assert exchange().received(message, PEERS) == exchange()


def test_second_answer_of_a_node_is_ignored() -> None:
    state = exchange().received(stacks(1, 2), PEERS)
    assert state.received(stacks(1, 3), PEERS) == state


def test_node_that_ended_long_before_the_hang_is_not_awaited() -> None:
    state = exchange().received(ended(1, (2, 0), when=BEGAN - 500), PEERS)
    assert state.waiting == {2}


def test_rank_that_two_nodes_claim_is_believed_of_this_node_only() -> None:
    twice = (RankAtHang(4, 1, "lie"), RankAtHang(0, 2, "lie"), RankAtHang(4, 2, "lie"))
    state = exchange()._replace(ranks=twice).with_own([RankAtHang(0, 0, "s")])
    assert state.conclusion(()).folded == (Fold((0,), "s"),)


def test_unanswered_node_is_silent_only_if_it_is_unreachable() -> None:
    assert exchange().conclusion(unreached=(2, 7)).silent == (2,)


def test_report_of_node_0_replaces_the_own_conclusion() -> None:
    report = StacksReport((Fold((0, 3), "a"),), HangSuspect(1, 3, "is late"), ("rank 0 waits for 3",), (), ())
    message = PeerMessage(0, "stacks_report", encode_report(report), BEGAN)
    state = exchange(1, 0).received(stacks(0, 0), PEERS)
    assert state == exchange(1, 0), "only node 0 collects stacks"
    state = state.received(message, PEERS)
    assert state.is_finished(BEGAN, unreached=())
    assert state.conclusion(()) == report


def decided(**more: Any) -> dict[str, Any]:
    """The fields of a right report, changed by `more`."""
    suspect = {"node": 1, "rank": None, "why": "is\n\x1b[2J late"}
    folds = [{"ranks": [1], "stack": "s"}]
    return {
        "folded": folds,
        "suspect": suspect,
        "waits": ["a"],
        "silent": [1],
        "working": [],
        "busy": [],
        "stuck": [],
        **more,
    }


def test_report_of_a_peer_loses_control_characters() -> None:
    report = decode_report(decided())
    assert report == StacksReport((Fold((1,), "s"),), HangSuspect(1, None, "is [2J late"), ("a",), (1,), ())


@pytest.mark.parametrize(
    "lie", [{"folded": 1}, {"folded": [{}]}, {"suspect": {"node": "x"}}, {"silent": ["x"]}, {"waits": [7]}]
)
def test_malformed_report_of_a_peer_is_dropped(lie: Any) -> None:
    assert decode_report(decided(**lie)) is None


def test_encoded_messages_are_bounded() -> None:
    ranks = [RankAtHang(rank, 1, "x" * 20_000) for rank in range(65)]
    assert [len(row["stack"]) for row in encode_ranks(ranks)["ranks"]] == [150_000 // 65] * 64
    report = StacksReport(tuple(Fold((rank,), "x" * 20_000) for rank in range(300)), waits=("w",) * 50)
    fields = encode_report(report)
    assert [len(fold["stack"]) for fold in fields["folded"]] == [500] * 256
    assert len(fields["waits"]) == 40


WORKING = 'Thread 1 (active): "MainThread"\n    evaluate (train.py:60)\n    <module> (train.py:80)\n'
WAITING = 'Thread 1 (active): "MainThread"\n    all_reduce (torch/distributed/c10d.py:9)\n    <module> (train.py:9)\n'


def test_silent_node_is_suspected_although_a_rank_is_at_work() -> None:
    ranks = [RankAtHang(0, 0, WORKING, 5.0, printed=1.0), RankAtHang(1, 0, WAITING, 60.0, printed=60.0)]
    assert StacksReport.of(ranks, ()).working == (0,)
    report = StacksReport.of(ranks, (2,))
    assert (report.working, report.suspect and report.suspect.node) == ((), 2)
