"""What the supervisor has sampled: its workers, by the environment and the directories that they have."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.metrics.sampler import Metrics, Sampling
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog, Started, shell


def first_sample(workers: Sequence[Worker], inbox: SignalInbox, journal: EventLog) -> dict[str, Any]:
    """The event of the first sample of these workers."""
    with closing(
        Metrics(Sampling(0.05), inbox, journal, read=OutputReader((), journal.warn).subscribe())
    ) as task:
        eventually(lambda: task.patience() == 0, "the first interval is over")
        task.check(workers, False)
        eventually(lambda: journal.events("metrics"), "a sample")
    return journal.events("metrics")[0]


@pytest.mark.parametrize("elsewhere", ["cwd", "log_file", ""])
def test_disks_of_working_directory_and_logs_are_sampled(
    tmp_path: Path, started: Started, inbox: SignalInbox, journal: EventLog, elsewhere: str
) -> None:
    """One of the two may be in memory, which is always looked at."""
    spec = shell(tmp_path, 0, "exec sleep 600")
    if elsewhere == "cwd":
        spec = spec._replace(cwd="/dev/shm")
    with started(spec) as group:
        if elsewhere == "log_file":
            group.workers[0].spec = spec._replace(log_file="/dev/shm/rank_0.txt")
        event = first_sample(group.workers, inbox, journal)
    assert event["ranks"]["rank"] == [0]
    assert str(tmp_path) in event["host"]["disks"]
    assert "no metrics" not in journal.screen()


def test_a_worker_is_sampled_until_its_end_is_recorded(
    tmp_path: Path, started: Started, inbox: SignalInbox, journal: EventLog
) -> None:
    with started("exec sleep 600", "echo ended") as group:
        ended = group.workers[1]
        ended.process.wait(timeout=30)
        ended.collect(ended.started_ns, stopped=False)
        event = first_sample(group.workers, inbox, journal)
    assert event["ranks"]["threads"] == [1, None]


def test_a_sampler_that_cannot_start_is_reported(inbox: SignalInbox, journal: EventLog) -> None:
    broken = cast(Worker, SimpleNamespace(spec=None))
    with closing(
        Metrics(Sampling(0.01), inbox, journal, read=OutputReader((), journal.warn).subscribe())
    ) as task:
        eventually(lambda: task.patience() == 0, "the first interval is over")
        task.check([broken], False)
        eventually(lambda: "no metrics: AttributeError: " in journal.screen(), "the line")


def test_with_a_port_the_first_sample_is_taken_at_once(inbox: SignalInbox, journal: EventLog) -> None:
    with closing(
        Metrics(Sampling(3600.0, port="0"), inbox, journal, read=OutputReader((), journal.warn).subscribe())
    ) as task:
        assert task.patience() == 0
