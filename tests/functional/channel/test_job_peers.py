"""The peers as a run's observer: messages after a failure of this node or of another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.launch.launch_plan import Placement
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy
from ma_boot.node.supervisor.worker_group import Worker, WorkerGroup
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.result import RunResult
from tests.functional.channel.fake_channel import FakeChannel, job_of, peers_over
from tests.functional.supervisor.conftest import EventLog, Started, shell

RAISES = "echo 'Traceback (most recent call last):'; echo '  x'; echo 'ValueError: no such layer'"
STOPPED = AttemptEnd(1)._asdict()


@pytest.fixture
def context(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> ProcessContext:
    return ProcessContext({}, "host", str(tmp_path), inbox, journal)


@pytest.fixture
def channel() -> FakeChannel:
    """The channel of node 1 of two."""
    return FakeChannel([0])


@pytest.fixture
def peers(channel: FakeChannel, context: ProcessContext) -> JobPeers:
    """The peers of node 1 of two."""
    return peers_over(channel, context, 1, 2)


def end(group: WorkerGroup) -> None:
    """Waits for the workers, and records their ends."""
    for worker in group.workers:
        worker.process.wait(timeout=30)
        worker.collect(worker.started_ns, stopped=False)


def test_first_failure_is_reported_once_and_all_ends_after_the_run(
    tmp_path: Path, channel: FakeChannel, peers: JobPeers, started: Started
) -> None:
    specs = [shell(tmp_path, 3, f"{RAISES}; exit 5"), shell(tmp_path, 4, "exit 0")]
    specs[1] = specs[1]._replace(label="scheduler", rank=None)
    with started(*specs) as group:
        assert peers.check(group.workers, False) == ""
        assert channel.sent == []
        end(group)
        for _ in range(3):
            assert peers.check(group.workers, True) == ""
        ((kind, body),) = channel.sent
        assert kind == "failed"
        assert [(row["rank"], row["code"], row["words"]) for row in body["failures"]] == [
            (3, 5, "ValueError: no such layer")
        ]
        peers.close()
    assert channel.sent[1:] == [("ended", {"codes": [[3, 5]], "attempt": 1})]


def test_ends_of_an_earlier_attempt_are_dropped(channel: FakeChannel, peers: JobPeers) -> None:
    for attempt in (0, 1):
        channel.receive(0, "ended", {"codes": [[0, attempt]], "attempt": attempt})
    channel.receive(0, "steps", {})
    peers.check([], False)
    assert [(message.kind, message.body.get("attempt")) for message in peers.heard()] == [
        ("ended", 1),
        ("steps", None),
    ]


def test_exception_of_a_running_rank_is_reported_after_a_failure_elsewhere(
    tmp_path: Path, channel: FakeChannel, peers: JobPeers, started: Started
) -> None:
    """The rank that raised may end long after the peers that lost it."""
    with started(shell(tmp_path, 3, f"{RAISES}; exec sleep 600")) as group:
        (worker,) = group.workers
        while "ValueError" not in worker.output.tail():
            worker.output.pump()
        peers.check(group.workers, False)
        assert channel.sent == []
        channel.receive(0, "cause", {})
        channel.receive(0, "hanging", {})
        peers.check(group.workers, False)
        ((kind, body),) = channel.sent
        assert (kind, body["failures"][0]["words"]) == ("failed", "ValueError: no such layer")
        assert [message.kind for message in peers.heard()] == ["hanging"], "for the hang detector"
        assert peers.heard() == []


def test_leader_sends_the_root_cause_again_when_a_better_one_is_known(context: ProcessContext) -> None:
    channel = FakeChannel([1, 2])
    peers = peers_over(channel, context, 0, 3)

    def causes_after(node: int, rank: int, words: str, evidence: int, at: float) -> list[Any]:
        row = {"node": node, "rank": rank, "code": 1, "words": words, "evidence": evidence, "at": at}
        channel.receive(node, "failed", {"failures": [row]})
        peers.check([], False)
        return [(kind, row["node"], row["words"]) for kind, body in channel.sent for row in body["failures"]]

    lost = ("cause", 1, "Connection reset by peer")
    assert causes_after(1, 4, lost[2], 3, 1.0) == [lost]
    assert causes_after(2, 8, "Connection closed", 3, 5.0) == [lost], "it was not the first"
    assert causes_after(2, 9, "ValueError: 7", 0, 5.0) == [lost, ("cause", 2, "ValueError: 7")]
    assert causes_after(1, 5, "ValueError: 8", 0, 6.0) == [lost, ("cause", 2, "ValueError: 7")]


def test_a_rank_belongs_to_one_node_if_all_nodes_have_as_many(peers: JobPeers) -> None:
    job = job_of(1, 4)
    peers.meet(Placement(8, (2, 3), None), None, job, 0)
    assert [[node for node in range(4) if peers.has_rank(node, rank)] for rank in (0, 3, 7, 8)] == [
        [0], [1], [3], [],
    ]  # fmt: skip
    peers.meet(Placement(8, (0, 3), None), None, job, 0)
    assert [peers.has_rank(2, rank) for rank in (-1, 0, 1, 3)] == [False, False, True, False]


def test_without_a_token_no_message_is_sent_and_no_rank_stopped(context: ProcessContext) -> None:
    peers = JobPeers("", context.inbox, context.journal)
    peers.open(job_of(1, 2), 0)
    assert not peers.is_connected
    assert peers.check([cast(Worker, SimpleNamespace(exit=None))], False) == ""
    peers.close()


def test_channel_is_closed_with_one_warning_after_its_first_error(
    channel: FakeChannel, peers: JobPeers, journal: EventLog
) -> None:
    channel.error = ZeroDivisionError("planted")
    for _ in range(3):
        assert peers.check([], False) == ""
    assert not peers.is_connected
    assert journal.screen().count("this node continues without its peers: ZeroDivisionError: planted") == 1
    assert [kind for kind, body in channel.sent] == ["over"], "or its peers would count it as lost"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("channel closed", "there is no connection to the other nodes"),
        ("node 2 ends", "node 2 has ended with exit code 1"),
        ("node 2 ends after it has stopped", "node 2 has ended with exit code 1"),
        ("node 2 is lost", "node 2 does not answer any more"),
        ("node 2 is lost after it has stopped", "node 2 does not answer any more"),
        ("node 2 is silent", "node 2 has not answered in "),
        ("node 2 stops another attempt", "node 2 has not answered in "),
        ("none", ""),
    ],
)
def test_leader_allows_a_restart_only_after_all_nodes_have_stopped(
    context: ProcessContext, monkeypatch: pytest.MonkeyPatch, fault: str, why: str
) -> None:
    monkeypatch.setattr("ma_boot.node.peers.restart_protocol.AGREE_SECONDS", 0.5)
    channel = FakeChannel([1, 2])
    peers = peers_over(channel, context, 0, 3)
    peers.restarts.begin(RestartPolicy(1))
    channel.receive(1, "stopped", STOPPED)
    if fault == "none" or "after" in fault:
        channel.receive(2, "stopped", STOPPED)
    if "another attempt" in fault:
        channel.receive(2, "stopped", {**STOPPED, "attempt": 2})
    if "ends" in fault:
        channel.receive(2, "left", {"code": 1})
    channel.dead = {2} if "lost" in fault else set()
    if fault == "channel closed":
        peers.__exit__()
    verdict = peers.restarts.agree(AttemptEnd(1), RunResult(()))
    assert (verdict.again, peers.restarts.attempt) == (fault == "none", 2 if fault == "none" else 1)
    assert verdict.why.startswith(why or "the ranks hung")
    if fault != "channel closed":
        kind, body = channel.sent[-1]
        assert kind == "go"
        assert body.items() >= verdict._asdict().items(), "all nodes receive the same verdict"
