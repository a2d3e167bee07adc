"""A hang as one node sees it: its own, and those that other nodes tell of."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.rank_stacks.stacks_messages import decode_report
from tests.functional.node import eventually
from tests.functional.observe.conftest import Detecting, Others, row, set_last_round
from tests.functional.supervisor.conftest import EventLog, Started


def test_of_another_nodes_hang_the_stacks_are_taken_once_a_minute(
    started: Started, detecting: Detecting, journal: EventLog
) -> None:
    line = "[ma_boot] ranks hang on another node: collecting the stacks of this node\n"
    peers = Others(0, node=1)
    with started("exec sleep 600") as group, detecting(None, peers) as detector:

        def hears(kind: str, **body: object) -> str:
            peers.messages.append(PeerMessage(0, kind, body, time.monotonic()))
            detector.check(group.workers, False)
            return journal.screen()

        assert hears("unknown") == ""
        assert detector.patience() == math.inf
        assert hears("hanging") == line
        assert detector.patience() == 1, "soon again: others may turn out not to answer"
        assert hears("hanging") == line, "they are being taken"
        eventually(lambda: detector.check(group.workers, False) or peers.sent, "the own stacks")
        folds = [{"ranks": [4], "stack": "a"}, {"ranks": [0, 5], "stack": "b"}]
        hears("stacks_report", folded=folds, suspect=None, waits=[], silent=[], working=[], busy=[], stuck=[])
        eventually(lambda: detector.check(group.workers, False) or journal.events("stacks"), "the report")
        assert [len(event["folded"]) for event in journal.events("stacks")] == [2]
        assert journal.events("hang") == [], "nobody hangs here"
        ((_, body),) = peers.sent
        assert [(rank["rank"], rank["quiet"] < 60) for rank in body["ranks"]] == [(0, True)]
        assert hears("hanging").count(line) == 1
        set_last_round(detector, detector.state.last_round - 90)
        assert hears("hanging").count(line) == 2
        eventually(lambda: detector.check(group.workers, False) or len(peers.sent) == 2, "the stacks again")


def test_node_0_asks_all_others_for_their_stacks_and_tells_them_what_follows(
    detecting: Detecting, journal: EventLog
) -> None:
    peers = Others()
    peers.unreached = ()
    with detecting(None, peers) as detector:
        peers.messages.append(PeerMessage(1, "hanging", {}, time.monotonic()))
        detector.check([], False)
        assert peers.sent == [("hanging", {})]
        for node in (1, 2):
            ranks = [row(2 * node, stack=f"of {node}")]
            peers.messages.append(PeerMessage(node, "stacks", {"ranks": ranks}, time.monotonic()))
        eventually(lambda: detector.check([], False) or journal.events("stacks"), "the report")
    report = {
        "folded": [{"ranks": (2,), "stack": "of 1"}, {"ranks": (4,), "stack": "of 2"}],
        "suspect": None,
    }
    assert peers.sent[1:] == [
        ("stacks_report", {**report, "waits": [], "silent": [], "working": [], "busy": [], "stuck": []})
    ]
    (event,) = journal.events("stacks")
    decoded = decode_report(json.loads(json.dumps(peers.sent[1][1])))
    assert decoded is not None
    assert decoded.fields() == peers.sent[1][1]
    assert event["silent"] == []


def test_stacks_that_were_taken_just_now_are_not_taken_again_for_an_own_hang(
    started: Started, detecting: Detecting, journal: EventLog
) -> None:
    peers = Others()
    with started("exec sleep 600") as group:
        with detecting(0.4, peers) as detector:
            set_last_round(detector, time.monotonic() - 30)
            assert eventually(lambda: detector.find_hangs(group.workers), "the hang") == ["rank 0"]
            assert (journal.events("hang")[0]["labels"], peers.sent) == (["rank 0"], [])
        with detecting(0.4, peers) as detector:
            set_last_round(detector, time.monotonic() - 90)
            eventually(lambda: detector.check(group.workers, False) or peers.sent, "the hang")
            assert peers.sent[0] == ("hanging", {"labels": ["rank 0"], "look": False, "report": True})


def test_a_node_that_ended_before_the_hang_is_not_waited_for(
    started: Started, detecting: Detecting, journal: EventLog
) -> None:
    peers = Others(1)
    with started("exec sleep 600") as group, detecting(None, peers) as detector:
        peers.messages.append(PeerMessage(1, "stacks", {"ranks": [row(5)]}, time.monotonic()))
        for kind, body in (("ended", {"codes": [[5, 3]]}), ("hanging", {})):
            peers.messages.append(PeerMessage(1, kind, body, time.monotonic() - 100))
        eventually(lambda: detector.check(group.workers, False) or journal.events("stacks"), "the report")
    (event,) = journal.events("stacks")
    assert ([5], "has ended with exit code 3") in [(fold["ranks"], fold["stack"]) for fold in event["folded"]]
    assert time.monotonic() - detector.state.last_round < 60


def test_rank_that_ends_during_the_collection_is_not_awaited(detecting: Detecting, journal: EventLog) -> None:
    peers = Others()
    with detecting(3600.0, peers) as detector:
        peers.messages.append(PeerMessage(1, "hanging", {"labels": ["rank 4"]}, time.monotonic()))
        for node in (1, 2):
            peers.messages.append(PeerMessage(node, "ended", {"codes": [[4 + node, node]]}, time.monotonic()))
        eventually(lambda: detector.check([], False) or journal.events("stacks"), "the report")
    (event,) = journal.events("stacks")
    assert [(fold["ranks"], fold["stack"]) for fold in event["folded"]] == [
        ([5], "has ended with exit code 1"),
        ([6], "has ended with exit code 2"),
    ]
    assert event["silent"] == []


def test_a_job_of_which_one_rank_prints_and_all_others_wait_is_not_ended(
    tmp_path: Path, started: Started, detecting: Detecting, journal: EventLog
) -> None:
    prints = "while :; do echo accuracy; sleep 0.1; done"
    with started(prints, "exec sleep 600", "exec sleep 600") as group, detecting(1.0) as detector:

        def looks() -> str:
            for worker in group.workers:
                worker.output.pump()
            return detector.check(group.workers, False)

        for number in (1, 2):

            def looked(number: int = number) -> bool:
                assert not looks()
                return len(journal.events("stacks")) == number

            eventually(looked, "a look")
            set_last_round(detector, detector.state.last_round - 90)
    assert [event["working"] for event in journal.events("stacks")] == [[0], [0]]
    assert journal.events("hang") == []


def test_at_the_limit_of_threads_a_hang_is_reported_without_stacks(
    started: Started, detecting: Detecting, journal: EventLog
) -> None:
    with started("exec sleep 600") as group, detecting(0.4) as detector:
        journal.say("begins")
        before = threading.stack_size(1 << 46)  # bytes, which no thread gets
        try:
            assert eventually(lambda: detector.find_hangs(group.workers), "the hang") == ["rank 0"]
        finally:
            threading.stack_size(before)
    assert "[ma_boot] warning: no stacks: can't start new thread" in journal.screen()
    assert [event["labels"] for event in journal.events("hang")] == [["rank 0"]]
