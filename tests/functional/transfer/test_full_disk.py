"""Uploads work with no byte free on any disk."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from path_mapping.planning.spool import IN_MEMORY
from tests.functional.transfer.full_disk import CONTENT
from tests.obs import MemoryObs
from tests.requirement import unavailable
from tests.transfers import content_of, obs_store
from tests.unit.project.imports import ROOT

ON_A_SMALL_DISK = """
mount -t tmpfs -o size=4m none /tmp && mount --bind /tmp /var/tmp && mount --bind /tmp /dev/shm || exit 99
exec "$@"
"""


def on_a_full_disk(case: str, obs: MemoryObs, count: int = 0) -> subprocess.CompletedProcess[str]:
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    argv = [sys.executable, "-m", "tests.functional.transfer.full_disk", case, obs.url, str(count)]
    environ = {**os.environ, "TMPDIR": "/tmp"}
    done = subprocess.run(
        [*own, "sh", "-c", ON_A_SMALL_DISK, "sh", *argv],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 99 or done.stderr.startswith("unshare:"):
        unavailable(f"no file system in a mount namespace of its own: {done.stderr}")
    return done


def test_more_outputs_than_a_plan_keeps_in_memory_are_uploaded(obs: MemoryObs) -> None:
    count = IN_MEMORY + 100
    done = on_a_full_disk("upload", obs, count)
    assert done.returncode == 0, done.stdout + done.stderr
    store = obs_store(obs.url)
    assert sum(1 for _ in store.list("bucket", "out/")) == count + 1
    assert content_of(store, "out/rank_0.bin") == CONTENT


def test_so_are_they_planned(obs: MemoryObs) -> None:
    done = on_a_full_disk("plan", obs, IN_MEMORY + 100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in all: copy 20,101 (0.1 MB)" in done.stdout


def test_outputs_of_a_job_that_filled_the_disk(obs: MemoryObs) -> None:
    done = on_a_full_disk("outputs", obs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert content_of(obs_store(obs.url), "out/rank_0.bin") == CONTENT


def test_a_checkpoint_of_a_job_that_filled_the_disk(obs: MemoryObs) -> None:
    done = on_a_full_disk("checkpoint", obs)
    assert done.returncode == 0, done.stdout + done.stderr
    keys = [stored.key for stored in obs_store(obs.url).list("bucket", "ckpt/")]
    assert [key for key in keys if key.endswith("/iter_10/rank_0.bin")] != [], done.stdout
    assert [key for key in keys if "/.ma_boot/manifests/" in key] != [], done.stdout


@pytest.mark.parametrize("count", [0, 30])
def test_a_script_copies_to_obs_from_a_full_disk(obs: MemoryObs, count: int) -> None:
    done = on_a_full_disk("mox", obs, count)
    assert done.returncode == 0, done.stdout + done.stderr
    store = obs_store(obs.url)
    assert content_of(store, "out/rank_0.bin") == content_of(store, "out/copy") == CONTENT
