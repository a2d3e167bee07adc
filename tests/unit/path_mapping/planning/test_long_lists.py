"""The spool, which makes a plan for a million objects cheap."""

from __future__ import annotations

import resource
import tempfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from path_mapping.planning.spool import Item, Spool


def spool_of(items: Iterable[Item], in_memory: int = 3) -> Spool[Item]:
    spool: Spool[Item] = Spool(in_memory)
    for item in items:
        spool.add(item)
    return spool


@pytest.mark.parametrize("count", [0, 3, 4, 2500])
def test_a_spool_keeps_the_order_wherever_its_items_are(count: int) -> None:
    items = [(number, f"\udcff{number}") for number in range(count)]
    spool = spool_of(items)
    assert [list(spool), list(spool)] == [items, items]
    spool.add((-1, "later"))
    assert list(spool) == [*items, (-1, "later")]
    spool.close()


def test_items_added_after_a_reader_stopped_early_overwrite_no_others() -> None:
    items = [(number,) for number in range(5000)]
    spool = spool_of(items[:2500])
    reader = iter(spool)
    assert [next(reader) for _ in range(10)] == items[:10]
    assert list(spool) == items[:2500], "the next reader begins at the first item, and reads all"
    for item in items[2500:]:
        spool.add(item)
    assert list(spool) == items
    spool.close()


def test_nearly_every_transfer_needs_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not here"))
    spool = spool_of([(0,), (1,), (2,)])
    assert list(spool) == [(0,), (1,), (2,)]
    spool.close()
    assert list(spool) == []


def test_without_room_for_a_temporary_file_the_items_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [(number,) for number in range(3500)]
    spool = spool_of(items[:1500])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limit[1]))
    try:
        for item in items[1500:]:
            spool.add(item)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert [list(spool), list(spool)] == [items, items]
    spool.close()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not here"))
    nowhere = spool_of(items)
    assert list(nowhere) == items
    assert list(nowhere.in_order_of(lambda item: -item[0])) == items[::-1]
    nowhere.close()


@pytest.mark.parametrize("in_memory", [3, 1200, 2500, 3001, 10_000])
def test_items_are_sorted_wherever_they_are(in_memory: int) -> None:
    items = [(number * 7919 % 3001, number) for number in range(3001)]
    spool = spool_of(items, in_memory)
    assert list(spool.in_order_of(lambda item: item[0])) == sorted(items)
    assert list(spool) == items, "nothing has changed"
    spool.close()
    assert list(spool.in_order_of(lambda item: item[0])) == []


def test_the_most_urgent_of_many_files_take_little_memory(tmp_path: Path) -> None:
    count = 40_000
    spool = spool_of(((n * 7919 % count, f"name-of-a-file-{n:010}") for n in range(count)), 1000)
    tracemalloc.start()
    try:
        items = spool.in_order_of(lambda item: item[0])
        numbers = [next(items)[0] for _ in range(10)]
        rest = sum(1 for _ in items)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        spool.close()
    assert (numbers, rest) == (list(range(10)), count - 10)
    assert peak < 2_500_000, "a batch of each part, of the 7 MB that all are"
