"""Faults of OBS at each request of publishing, removing and restoring checkpoints."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.desk.rehearsal.obs_server.faults import RequestFault
from ma_boot.node.checkpoints import upkeep
from path_mapping.stores.access import Credentials
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.conftest import CREDENTIALS
from tests.functional.checkpoints.output import TestNode, keys, step_of
from tests.obs import MemoryObs, obs_fault

KINDS = ["503", "500", "reset", "cut", "reset-body", "empty", "flip"]
STORM = 4  # times in a row


class AtRequest(list[RequestFault]):
    """Returns faults, one of which breaks `times` requests from a given number on."""

    def __init__(self, number: int, kind: str, times: int) -> None:
        self.number, self.kind, self.times = number, kind, times
        self.seen = 0
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[RequestFault]:
        with self._lock:
            self.seen += 1
            mine = self.number < self.seen <= self.number + self.times
        if mine:
            yield from (
                obs_fault(self.kind, method, "", 1) for method in ("GET", "PUT", "HEAD", "DELETE", "POST")
            )


@pytest.fixture
def served(obs: MemoryObs) -> Store:
    return open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier starts count as over at once."""
    monkeypatch.setattr(upkeep, "ANSWER_LOOKS", 0)


def story(store: Store, base: Path, step: int) -> str | None:
    """Restores, publishes a step that replaces another, and ends; returns the restored step."""
    node = TestNode(base, store, options={"keep": 1, "interval": 1000.0})
    restored = node.start()
    node.save(step, {f"{number}.bin": b"%d %d" % (step, number) * 1000 for number in range(2)})
    node.note_call(step)
    node.cycle(1)
    node.end()
    return step_of(restored)


@pytest.mark.invariant("No fault of OBS loses a checkpoint or completes a damaged one")
def test_fault_of_one_request_loses_no_checkpoint(obs: MemoryObs, served: Store, tmp_path: Path) -> None:
    run_faults(obs, served, tmp_path, lambda number: [KINDS[number % len(KINDS)]])


def test_credentials_that_expire_at_any_request_are_renewed(obs: MemoryObs, tmp_path: Path) -> None:
    tokens = itertools.cycle([None, "TOKENPLANTED"])
    store = open_store(
        {"OBS_ENDPOINT": obs.url, **CREDENTIALS},
        None,
        renew=lambda: Credentials("AKPLANTED", "SKPLANTED", next(tokens)),
    )
    next(tokens)
    run_faults(obs, store, tmp_path, lambda number: ["expired"])


@pytest.mark.kill
@pytest.mark.timeout(3600)
def test_no_kind_of_fault_loses_a_checkpoint(obs: MemoryObs, served: Store, tmp_path: Path) -> None:
    run_faults(obs, served, tmp_path, lambda number: KINDS)


def run_faults(obs: MemoryObs, store: Store, base: Path, kinds: Callable[[int], Sequence[str]]) -> None:
    for step in (1, 2, 3):
        before = len(obs.requests)
        story(store, base / f"clean-{step}", step)
    count = len(obs.requests) - before
    assert count > 15
    for number in range(count):
        for kind in kinds(number):
            obs.faults = AtRequest(number, kind, STORM if kind in ("503", "500") else 1)
            assert story(store, base / f"{number}-{kind}", step + 1) == str(step), (number, kind)
            assert obs.faults.seen > number, "the fault came"
            obs.faults = []
            step += 1
            check(store, step)


def check(store: Store, step: int) -> None:
    """Checks that the newest checkpoint has its two files, and that no file of a removed one is left."""
    names = [key for key in keys(store) if "/iter_" in key]
    assert {key for key in names if f"/iter_{step}/" in key} >= set(names[-2:])
    manifests = list(keys(store, "ckpt/.ma_boot/manifests/"))
    assert 1 <= len(manifests) <= 2, "the newest, and the one that was restored"
    assert len(names) == 2 * len(manifests)
