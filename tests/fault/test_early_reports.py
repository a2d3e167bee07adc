"""Units that were submitted together, of which one takes long: the others are reported meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from path_mapping.stores.objects import Copy
from path_mapping.stores.units import PutFile, Unit
from path_mapping.workers.loop import Loop
from path_mapping.workers.pool import Outcome, Pool
from path_mapping.workers.retry import RetriedStore
from path_mapping.workers.worker_processes import ProcessPool
from tests.functional.node import eventually
from tests.obs import MemoryObs, obs_fault
from tests.transfers import obs_store, workers, write


def started(url: str, processes: int) -> Pool:
    to = RetriedStore(obs_store(url))
    return ProcessPool(to, processes, 1) if processes else Loop(to, 1)


def batch(base: Path, *names: str) -> list[Unit]:
    write(base, {f"out/{name}": name.encode() for name in names})
    copies = [
        Copy(os.fspath(base / "out" / name), os.fspath(base), "bucket", f"out/{name}", len(name))
        for name in names
    ]
    return [PutFile(number, copy, checked=False) for number, copy in enumerate(copies)]


def outcomes(pool: Pool, count: int) -> list[Outcome]:
    """Returns at least so many outcomes."""
    received: list[Outcome] = []

    def enough() -> bool:
        received.extend(pool.outcomes(0.1))
        return len(received) >= count

    eventually(enough, f"{count} outcomes")
    return received


@pytest.mark.parametrize("processes", [0, 2])
def test_finished_files_are_reported_while_another_takes_long(
    obs: MemoryObs, tmp_path: Path, processes: int
) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/out/c"))
    pool = started(obs.url, processes)
    pool.submit(batch(tmp_path, "a", "b", "c"))
    done = outcomes(pool, 2)
    assert [(outcome.number, outcome.error) for outcome in done] == [(0, None), (1, None)]
    obs.release.set()
    pool.close()


def test_next_worker_skips_files_reported_by_a_dead_one(obs: MemoryObs, tmp_path: Path) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/out/c", times=1))
    pool = started(obs.url, 2)
    pool.submit(batch(tmp_path, "a", "b", "c", "d"))
    assert [outcome.number for outcome in outcomes(pool, 2)] == [0, 1]
    os.kill(workers()[0], signal.SIGKILL)  # the first gets the first batch
    assert [(outcome.number, outcome.error) for outcome in outcomes(pool, 2)] == [(2, None), (3, None)]
    pool.close()
    sent = [seen.path for seen in obs.seen if seen.method == "PUT"]
    assert sent.count("/bucket/out/a") == sent.count("/bucket/out/b") == 1
    assert [entry.key for entry in obs_store(obs.url).list("bucket", "out/")] == [f"out/{x}" for x in "abcd"]
