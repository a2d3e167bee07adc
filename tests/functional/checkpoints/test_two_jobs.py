"""Two jobs at one URL at the same time: both say so, nothing is removed, and nothing of either is mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from path_mapping.checkpoints import upkeep
from path_mapping.sets import Place
from path_mapping.stores import FileStore
from tests.functional.checkpoints.output import TestNode, keys, step_of

PLACE = Place("bucket", "ckpt/")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look around at every look at the disk."""
    monkeypatch.setattr(upkeep, "LOOK_AROUND_SECONDS", 0.0)


def steps(store: FileStore) -> list[int]:
    return [one.name.step for one in PLACE.known_sets(keys(store, PLACE.sets)) if one.nodes]


def loud(node: TestNode) -> list[str]:
    return [line for line in node.said if "TWO STARTS PUBLISH TO obs://bucket/ckpt/" in line]


def test_both_say_so_once_and_neither_removes_anything(store: FileStore, tmp_path: Path) -> None:
    old = TestNode(tmp_path / "old", store, options={"keep": 1})
    new = TestNode(tmp_path / "new", store, options={"keep": 1})
    old.start()
    old.publish(10)
    new.start()
    old.look(2)
    new.look(2)
    assert len(loud(old)) == len(loud(new)) == 1
    assert "attempt-000002-" in loud(old)[0]
    assert "has begun while this start still runs" in loud(old)[0]
    assert "attempt-000001-" in loud(new)[0]
    assert "began before this start and still publishes" in loud(new)[0]
    for node in (old, new):
        node.publish(20, 30)
    assert steps(store) == [30, 20, 30, 20, 10]
    assert len(loud(old)) == len(loud(new)) == 1


def test_the_sets_of_the_older_one_count_until_the_newer_one_has_one(
    store: FileStore, tmp_path: Path
) -> None:
    old, new = TestNode(tmp_path / "old", store), TestNode(tmp_path / "new", store)
    old.start()
    new.start()
    old.publish(10)
    third = TestNode(tmp_path / "third", store)
    assert step_of(third.start()) == "10", "better than nothing: the newer one has published none"
    new.publish(5)
    assert step_of(TestNode(tmp_path / "fourth", store).start()) == "5"


def test_two_that_begin_at_the_same_time_notice_each_other(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has seen the attempt of the other, so both have the same number."""
    one, two = TestNode(tmp_path / "one", store), TestNode(tmp_path / "two", store)
    monkeypatch.setattr("path_mapping.checkpoints.attempts.Start._last_number", lambda start: 0)
    one.start()
    two.start()
    for node in (one, two, one):
        node.look(1)
    assert len(loud(one)) == len(loud(two)) == 1


def test_a_restart_of_the_same_job_is_no_second_one(store: FileStore, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"keep": 1})
    for step in (10, 20, 30):
        node.start()
        node.save(step)
        node.look()
    assert not loud(node)
    assert steps(store) == [30, 20], "the newest, and the one that was restored"
