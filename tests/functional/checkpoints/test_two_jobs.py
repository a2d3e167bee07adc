"""Two jobs at one URL: the second is refused, unless the first has ended; their checkpoints and parts never mix."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ma_boot.errors import BootError, ConfigError, NodesLate
from ma_boot.node.checkpoints.attempts import BegunAttempt
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import TestNode, manifests, printed, step_of, steps_of

IN_USE = r"obs://bucket/ckpt/ is in use: job first has begun attempt-000001-"


def loud(node: TestNode) -> list[str]:
    return printed([node], "TWO STARTS PUBLISH TO obs://bucket/ckpt/")


@pytest.mark.invariant(
    "A second job at one URL is rejected; two starts of one job remove nothing of each other"
)
def test_the_second_job_is_refused_until_the_first_has_ended(store: Store, tmp_path: Path) -> None:
    first = TestNode(tmp_path / "first", store, job="first")
    first.start()
    first.publish(10)
    second = TestNode(tmp_path / "second", store, job="second")
    with pytest.raises(ConfigError, match=IN_USE):
        second.start()
    second.take_over = True
    assert step_of(second.start()) == "10"
    assert second.end() == {}
    third = TestNode(tmp_path / "third", store, job="third")
    assert step_of(third.start()) == "10", "the second has ended, and `--take-over` has ended the first"


def test_followers_report_the_refusal_of_their_job(store: Store, tmp_path: Path) -> None:
    TestNode(tmp_path / "first", store, job="first").start()
    second = [TestNode(tmp_path / f"{node}", store, node, 2, job="second") for node in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        for started in [pool.submit(node.start) for node in second]:
            with pytest.raises(ConfigError, match=IN_USE):
                started.result()


def test_at_most_one_of_two_simultaneous_jobs_continues(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has seen the attempt of the other when it chooses its number."""
    monkeypatch.setattr("ma_boot.node.checkpoints.attempts.last_number", lambda start: 0)
    jobs = [TestNode(tmp_path / name, store, job=name) for name in ("one", "two")]

    def begun(node: TestNode) -> BegunAttempt | BootError:
        try:
            return node.start()
        except ConfigError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(begun, jobs))
    assert sum(isinstance(end, ConfigError) for end in ends) == 1, ends


def test_node_ignores_attempts_of_other_starts(store: Store, tmp_path: Path) -> None:
    """Two jobs of one name, each of two nodes, one of which is there: they make no job together."""
    nodes = [TestNode(tmp_path / f"{node}", store, node, 2, job_start=f"of {node}") for node in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        for started in [pool.submit(node.start, 1.0) for node in nodes]:
            with pytest.raises(NodesLate):
                started.result()


@pytest.mark.invariant(
    "A second job at one URL is rejected; two starts of one job remove nothing of each other"
)
def test_two_starts_of_one_job_report_each_other_and_remove_nothing(store: Store, tmp_path: Path) -> None:
    old, new = (TestNode(tmp_path / name, store, options={"keep": 1}) for name in ("old", "new"))
    old.start()
    old.publish(10)
    new.start()
    new.publish(5)
    assert steps_of(manifests(store)) == [5, 10], "from its first second on"
    for _ in range(20):
        for node in (old, new):
            node.cycle(1)
    assert len(loud(old)) == len(loud(new)) == 1
    assert "attempt-000002-" in loud(old)[0]
    assert "has begun while this start still runs" in loud(old)[0]
    assert "began before this start and still publishes" in loud(new)[0]
    for node in (old, new):
        node.publish(20, 30)
    assert steps_of(manifests(store)) == [30, 30], "each its own"


def test_checkpoints_of_the_older_start_are_used_until_the_newer_has_one(
    store: Store, tmp_path: Path
) -> None:
    old, new = TestNode(tmp_path / "old", store), TestNode(tmp_path / "new", store)
    old.start()
    new.start()
    old.publish(10)
    assert step_of(TestNode(tmp_path / "third", store).start()) == "10", "better than nothing"
    new.publish(5)
    assert step_of(TestNode(tmp_path / "fourth", store).start()) == "5"


@pytest.mark.usefixtures("no_earlier_start_runs")
def test_restart_of_the_same_job_is_not_a_second_job(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"keep": 1})
    for step in (10, 20, 30):
        node.start()
        node.publish(step)
    assert not loud(node)
    assert steps_of(manifests(store)) == [30, 20], "the newest, and the one that was restored"
