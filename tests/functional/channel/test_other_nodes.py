"""The other nodes as a run's observer: what is sent when a process of this node, or of another one, fails."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ma_boot.node.boot.job_channel import OtherNodes
from ma_boot.node.boot.job_restart import AttemptEnd, RestartPolicy
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.restart_protocol import Agreement
from ma_boot.node.launch.launch_plan import Placement
from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.platform.modelarts.job import read_job
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.result import RunResult
from tests.functional.observe.conftest import Others
from tests.functional.supervisor.conftest import EventLog, Started, shell
from tests.functional.supervisor.test_worker_group import end

RAISES = "echo 'Traceback (most recent call last):'; echo '  x'; echo 'ValueError: no such layer'"


@pytest.fixture
def others(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> OtherNodes:
    """This node, whose channel keeps what is sent."""
    others = OtherNodes(ProcessContext({}, "host", str(tmp_path), inbox, journal))
    channel: Any = Others(0, node=1)
    channel.others, channel.unreached = frozenset({0}), set()
    channel.connected, channel.away, channel.dead = set(), set(), set()
    others.node, others._channel = 1, cast(NodeChannel, channel)
    others._agreement = Agreement(1, 2)
    return others


def sent(others: OtherNodes) -> list[Any]:
    return cast(Others, others._channel).sent


def test_a_failure_is_told_at_once_and_once_and_the_ends_after_the_run(
    tmp_path: Path, others: OtherNodes, started: Started
) -> None:
    specs = [shell(tmp_path, 3, f"{RAISES}; exit 5"), shell(tmp_path, 4, "exit 0")]
    specs[1] = specs[1]._replace(label="scheduler", rank=None)
    with started(*specs) as group:
        assert others.check(group.workers, False) == ""
        assert sent(others) == []
        end(group)
        for _ in range(3):
            assert others.check(group.workers, True) == ""
        ((kind, body),) = sent(others)
        assert kind == "failed"
        assert [(row["rank"], row["code"], row["words"]) for row in body["failures"]] == [
            (3, 5, "ValueError: no such layer")
        ]
        others.close()
    assert sent(others)[1:] == [("ended", {"codes": [[3, 5]]})]


def test_after_a_failure_of_another_node_who_has_raised_here_is_told(
    tmp_path: Path, others: OtherNodes, started: Started
) -> None:
    """It may end long after the one that it has made fail."""
    with started(shell(tmp_path, 3, f"{RAISES}; exec sleep 600")) as group:
        (worker,) = group.workers
        while "ValueError" not in worker.output.tail():
            worker.output.pump()
        others.check(group.workers, False)
        assert sent(others) == []
        messages = cast(Others, others._channel).messages
        messages += [PeerMessage(0, kind, {}, time.monotonic()) for kind in ("cause", "hanging")]
        others.check(group.workers, False)
        ((kind, body),) = sent(others)
        assert (kind, body["failures"][0]["words"]) == ("failed", "ValueError: no such layer")
        assert [message.kind for message in others.heard()] == ["hanging"], "that is the detector's"
        assert others.heard() == []


def test_node_0_tells_the_others_the_cause_and_again_if_there_is_a_better_one(
    others: OtherNodes, tmp_path: Path, inbox: SignalInbox, journal: EventLog
) -> None:
    others.node = 0

    def tells(node: int, rank: int, words: str, evidence: int, at: float) -> list[Any]:
        row = {"node": node, "rank": rank, "code": 1, "words": words, "evidence": evidence, "at": at}
        cast(Others, others._channel).messages.append(
            PeerMessage(node, "failed", {"failures": [row]}, time.monotonic())
        )
        others.check([], False)
        return [(kind, row["node"], row["words"]) for kind, body in sent(others) for row in body["failures"]]

    lost = ("cause", 1, "Connection reset by peer")
    assert tells(1, 4, lost[2], 3, 1.0) == [lost]
    assert tells(2, 8, "Connection closed", 3, 5.0) == [lost], "it was not the first"
    assert tells(2, 9, "ValueError: 7", 0, 5.0) == [lost, ("cause", 2, "ValueError: 7")]
    assert tells(1, 5, "ValueError: 8", 0, 6.0) == [lost, ("cause", 2, "ValueError: 7")]


def test_a_rank_belongs_to_one_node(others: OtherNodes) -> None:
    """Where each node has as many ranks as this one, in the order of the nodes."""
    job = read_job({"MA_NUM_HOSTS": "4", "VC_TASK_INDEX": "1", "VC_WORKER_HOSTS": "a,b,c,d"}, "host")
    others.meet(Placement(8, (2, 3), None), None, job, 0)
    assert [[node for node in range(4) if others.has_rank(node, rank)] for rank in (0, 3, 7, 8)] == [
        [0], [1], [3], [],
    ]  # fmt: skip
    others.meet(Placement(8, (0, 3), None), None, job, 0)
    assert [others.has_rank(2, rank) for rank in (-1, 0, 1, 3)] == [False, False, True, False]


def test_without_a_way_to_them_nothing_is_told(others: OtherNodes) -> None:
    others._channel = None
    assert others.check([cast(Worker, SimpleNamespace())], False) == ""
    others.close()


STOPPED = AttemptEnd(1)._asdict()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("the way is given up", "there is no way to the other nodes"),
        ("node 2 ends", "node 2 has ended with exit code 1"),
        ("node 2 ends after it has stopped", "node 2 has ended with exit code 1"),
        ("node 2 is lost", "node 2 does not answer any more"),
        ("node 2 is lost after it has stopped", "node 2 does not answer any more"),
        ("node 2 is silent", "node 2 has not answered in "),
        ("node 2 stops another attempt", "node 2 has not answered in "),
        ("none", ""),
    ],
)
def test_node_0_starts_nobody_again_before_all_have_stopped(
    others: OtherNodes, monkeypatch: pytest.MonkeyPatch, fault: str, why: str
) -> None:
    monkeypatch.setattr("ma_boot.node.boot.restart_protocol.AGREE_SECONDS", 0.5)
    others.node, others.nodes, others._agreement = 0, 3, Agreement(0, 3)
    others.begin(RestartPolicy(1))
    channel: Any = others._channel
    channel.others = frozenset({1, 2})
    stopped = {"node 2 stops another attempt": {**STOPPED, "attempt": 2}}.get(fault)
    if fault == "none" or "after" in fault:
        stopped = STOPPED
    messages = [
        (1, "stopped", STOPPED),
        (2, "stopped", stopped),
        (2, "left", {"code": 1} if "ends" in fault else None),
    ]
    channel.messages += [
        PeerMessage(node, kind, body, 0.0) for node, kind, body in messages if body is not None
    ]
    channel.connected, channel.dead = {1, 2}, {2} if "lost" in fault else set()
    if "given up" in fault:
        others._channel = None
    verdict = others.agreed(AttemptEnd(1), RunResult(()))
    assert (verdict.again, others.attempt) == (fault == "none", 2 if fault == "none" else 1)
    assert verdict.why.startswith(why or "the ranks hung")
    if others._channel is not None:
        kind, body = sent(others)[-1]
        assert kind == "go"
        assert body.items() >= verdict._asdict().items(), "all others hear the same"
