"""Uploads work with no byte free on any disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from path_mapping.planning.spool import IN_MEMORY
from tests.functional.transfer.full_disk import CONTENT
from tests.obs import MemoryObs
from tests.requirement import unavailable
from tests.transfers import content_of, obs_store
from tests.unit.project.imports import ROOT

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
# A tree that is below one of the places, such as a clone in /tmp, stays where it is.
ON_A_SMALL_DISK = """
disk=$1 kept=$2; shift 2
mount -t tmpfs -o size=4m none "$disk" || exit 99
printf '%s' "$kept" | while IFS='|' read -r tree name; do
    mkdir -p "$disk/$name" && mount --rbind "$tree" "$disk/$name" || exit 1
done || exit 99
mount --rbind "$disk" /tmp && mount --rbind /tmp /var/tmp && mount --rbind /tmp /dev/shm || exit 99
cd / && cd "$PWD_OF_TESTS" && exec "$@"
"""


def kept() -> str:
    """Returns a line `TREE|NAME` for each tree of the interpreter and of the tests that the disk would hide."""
    trees = {str(ROOT.resolve()), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)}
    below = {
        tree: os.path.relpath(tree, place)
        for tree in trees
        for place in PLACES
        if tree.startswith(f"{place}/")
    }
    outer = [tree for tree in below if not any(tree.startswith(f"{other}/") for other in below)]
    return "".join(f"{tree}|{below[tree]}\n" for tree in outer)


def on_a_full_disk(case: str, obs: MemoryObs, count: int = 0) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as disk:
        return _on_disk(disk, case, obs, count)


def _on_disk(disk: str, case: str, obs: MemoryObs, count: int) -> subprocess.CompletedProcess[str]:
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    argv = [sys.executable, "-m", "tests.functional.transfer.full_disk", case, obs.url, str(count)]
    environ = {**os.environ, "TMPDIR": "/tmp", "PWD_OF_TESTS": str(ROOT)}
    done = subprocess.run(
        [*own, "sh", "-c", ON_A_SMALL_DISK, "sh", disk, kept(), *argv],
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
    assert "in all: copy 20,101 (" in done.stdout


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
