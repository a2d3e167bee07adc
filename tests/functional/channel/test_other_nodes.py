"""The other nodes as a run's observer: what is told when a process of this node, or of another one, fails."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List, cast

import pytest

from ma_boot.node.job_channel import OtherNodes
from ma_boot.node.world import World
from ma_boot.observe import PeerMessage
from ma_boot.observe.channel import NodeChannel
from ma_boot.processes import SignalInbox
from ma_boot.supervisor import Worker
from tests.functional.observe.conftest import Others
from tests.functional.supervisor.conftest import EventLog, shell, started
from tests.functional.supervisor.test_worker_group import end

RAISES = "echo 'Traceback (most recent call last):'; echo '  x'; echo 'ValueError: no such layer'"


@pytest.fixture
def others(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> OtherNodes:
    """This node, whose channel keeps what is told."""
    others = OtherNodes(World({}, "host", str(tmp_path), inbox, journal))
    others._channel = cast(NodeChannel, Others(1))
    return others


def told(others: OtherNodes) -> List[Any]:
    return cast(Others, others._channel).told


def test_a_failure_is_told_at_once_and_once_and_the_ends_after_the_run(
    tmp_path: Path, inbox: SignalInbox, journal: EventLog, others: OtherNodes
) -> None:
    specs = [shell(tmp_path, 3, f"{RAISES}; exit 5"), shell(tmp_path, 4, "exit 0")]
    specs[1] = specs[1]._replace(label="scheduler", rank=None)
    with started(*specs, inbox=inbox, journal=journal) as group:
        assert others.check(group.workers, False) == ""
        assert told(others) == []
        end(group)
        for _ in range(3):
            assert others.check(group.workers, True) == ""
        ((kind, body),) = told(others)
        assert kind == "failed"
        assert [(row["rank"], row["code"], row["words"]) for row in body["failures"]] == [
            (3, 5, "ValueError: no such layer")
        ]
        others.close()
    assert told(others)[1:] == [("ended", {"codes": [[3, 5]]})]


def test_after_a_failure_of_another_node_who_has_raised_here_is_told(
    tmp_path: Path, inbox: SignalInbox, journal: EventLog, others: OtherNodes
) -> None:
    """It may end long after the one that it has made fail."""
    with started(shell(tmp_path, 3, f"{RAISES}; exec sleep 600"), inbox=inbox, journal=journal) as group:
        (worker,) = group.workers
        while "ValueError" not in worker.output.tail():
            worker.output.pump()
        others.check(group.workers, False)
        assert told(others) == []
        messages = cast(Others, others._channel).messages
        messages += [PeerMessage(1, kind, {}, time.monotonic()) for kind in ("failed", "hanging")]
        others.check(group.workers, False)
        ((kind, body),) = told(others)
        assert (kind, body["failures"][0]["words"]) == ("failed", "ValueError: no such layer")
        assert [message.kind for message in others.heard()] == ["hanging"], "that is the detector's"
        assert others.heard() == []


def test_without_a_way_to_them_nothing_is_told(others: OtherNodes) -> None:
    others._channel = None
    assert others.check([cast(Worker, SimpleNamespace())], False) == ""
    others.close()
