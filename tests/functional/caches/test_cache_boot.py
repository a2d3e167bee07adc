"""Compile caches of whole jobs: the second start finds what the first one compiled, and no job ends otherwise for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.rehearsal.node_specs import rerooted
from ma_boot.node.caches.options import EXTENSION
from path_mapping.mapping.mapping_file import parse_mapping
from tests.conftest import CREDENTIALS
from tests.functional.node import Ended, Node

COMPILING = """
import os, sys, time
from pathlib import Path
cache = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/nowhere"), "ab")
print("found", sorted(path.name for path in cache.glob("*")), flush=True)
for name in sys.argv[2:]:
    cache.mkdir(parents=True, exist_ok=True)
    (cache / name).write_text(name)
sys.exit(int(sys.argv[1]))
"""


class Job:
    """A node whose mapping has a cache; each `run` is a new container, with the same code unless it is changed."""

    def __init__(self, node: Node, **options: object) -> None:
        self.node = node
        self.code = node.home / "code"
        self.code.mkdir()
        self.change(COMPILING)
        (node.obs / "bucket").mkdir()
        mapping = {"cache": {"cc": {"obs": "obs://bucket/caches", **options}}}
        (node.root / "mapping.json").write_text(json.dumps(mapping))
        node.complete_table()

    def change(self, code: str) -> None:
        (self.code / "train.py").write_text(code)

    def arguments(self, *words: str) -> list[str]:
        mapping = ["--path-mapping", str(self.node.root / "mapping.json"), "--obs-root", str(self.node.obs)]
        return [*mapping, "--python", sys.executable, "code/train.py", *words]

    def run(self, *words: str) -> Ended:
        kept = self.node.home / "cc"
        if kept.exists():
            kept.rename(self.node.root / f"old-{len(list(self.node.root.iterdir()))}")
        return self.node.boot(*self.arguments(*words))

    def counters(self) -> dict[str, Any]:
        """The last event with the hits."""
        return [event for event in self.node.events() if event["kind"] == "compile-cache"][-1]

    def keys(self) -> list[Path]:
        return list((self.node.obs / "bucket" / "caches").glob("*"))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(Node(tmp_path, devices=1))


def test_second_start_finds_what_the_first_has_compiled(job: Job) -> None:
    first = job.run("0", "a.so", "b.so")
    assert first.code == 0, first.output
    assert "found []" in first.output
    assert "compile cache: 0 files from the cache, 2 compiled in this start" in first.output
    second = job.run("0", "a.so", "c.so")
    assert second.code == 0
    assert "found ['a.so', 'b.so']" in second.output
    assert "compile cache: 2 files from the cache, 1 compiled in this start" in second.output
    counters = job.counters()
    assert (counters["restored"], counters["new"], counters["published"]) == (2, 1, 3)


def test_changed_code_starts_cold(job: Job) -> None:
    job.run("0", "a.so")
    job.change(f"{COMPILING}\n# changed")
    assert "found []" in job.run("0", "b.so").output
    assert len(job.keys()) == 2
    job.change(COMPILING)
    assert "found ['a.so']" in job.run("0").output


@pytest.mark.invariant("A compile cache never changes how a job ends")
def test_a_store_that_takes_nothing_changes_no_exit_code(job: Job) -> None:
    (job.node.obs / "bucket").rmdir()
    (job.node.obs / "bucket").write_text("no directory")
    ended = job.run("0", "a.so")
    assert ended.code == 0, ended.output
    assert "warning: compile cache: not published" in ended.output


@pytest.mark.invariant("A compile cache never changes how a job ends")
def test_a_store_that_does_not_answer_changes_no_exit_code(job: Job) -> None:
    job.node.variables.update({"OBS_ENDPOINT": "http://127.0.0.1:9", **CREDENTIALS})
    arguments = job.arguments("3", "a.so")
    without_root = [*arguments[:2], *arguments[4:]]
    ended = job.node.boot(*without_root)
    assert ended.code == 3, ended.output
    assert "found []" in ended.output
    assert "warning: compile cache: not restored" in ended.output
    assert job.counters()["restored"] == 0


def test_a_failed_training_publishes_nothing_at_its_end(job: Job) -> None:
    ended = job.run("3", "a.so")
    assert ended.code == 3
    assert job.keys() == []
    assert "0 files from the cache, 1 compiled in this start" in ended.output


def test_a_cache_is_published_while_the_training_runs(tmp_path: Path) -> None:
    job = Job(Node(tmp_path, devices=1), interval=1)
    job.change(COMPILING.replace("sys.exit(", "time.sleep(600), sys.exit("))
    booting = job.node.start(*job.arguments("0", "a.so"))
    booting.until("compile cache: published in")
    booting.signal()
    assert booting.end().code == 143
    (cached,) = job.keys()
    assert [path.name for path in cached.glob("attempt-*/torchinductor/ab/*")] == ["a.so"]


def test_code_without_a_digest_has_no_cache(job: Job) -> None:
    with (job.code / "weights.bin").open("wb") as file:
        file.truncate(300 << 20)
    ended = job.run("0")
    assert ended.code == 0
    assert "compile cache: not used, as the code is unknown: it has more than 256 MiB" in ended.output


def test_all_nodes_restore_what_node_0_has_published(tmp_path: Path) -> None:
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(COMPILING)
    (tmp_path / "mapping.yaml").write_text("cache:\n  cc: obs://bucket/caches/\n")
    words = ["--local", "--nodes", "2", "--devices-per-node", "1", "--obs-root", "obs"]
    words += ["--path-mapping", "mapping.yaml", "--python", sys.executable, "code/train.py", "0"]
    outputs = [
        subprocess.run(
            [sys.executable, "-m", "ma_boot", *words, *names],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for names in (["a.so"], [])
    ]
    assert len(list(tmp_path.glob("obs/bucket/caches/*/attempt-*"))) == 1
    assert outputs[0].count("found []") == outputs[1].count("found ['a.so']") == 2


def test_a_rehearsal_keeps_the_section_when_it_moves_absolute_paths() -> None:
    text = json.dumps({"cache": {"/cache/cc": {"obs": "obs://bucket/caches/", "keep": 3}}})
    mapping = parse_mapping(text, "m.json", {}, EXTENSION)
    moved = parse_mapping(rerooted(mapping, "/node-0"), "m.json", {}, EXTENSION)
    assert moved.caches == (mapping.caches[0]._replace(local="/node-0/cache/cc"),)
