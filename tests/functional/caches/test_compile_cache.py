"""A compile cache in every kind of store: complete or not there, bounded, and nothing in it is trusted."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import pytest

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.caches import compile_cache
from ma_boot.node.caches.compile_cache import CacheTarget, CompileCache, Published, Restored
from ma_boot.node.caches.options import CacheOptions
from ma_boot.node.checkpoints.records import documents as records
from path_mapping.errors import Unreachable
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.store import Store
from path_mapping.transfer.transfer import ignored
from path_mapping.workers.retry import RetryPolicy

KEY = "c0de-50f7"
FILES = {"torchinductor/ab/k.so": b"so" * 500, "triton/K/k.cubin": b"cubin"}
ONCE = RetryPolicy(0.0)


@dataclass
class Start:
    """A start of a job with a disk of its own."""

    base: Path
    store: Store
    options: CacheOptions = field(default_factory=CacheOptions)
    key: str = KEY
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        route = Route("cc", ObsUrl("bucket", "caches/"), more=self.options)
        target = CacheTarget(route, self.base, self.store, key=self.key, job="job", say=self.said.append)
        self.cache = CompileCache(target)
        self.root = target.root

    def restore(self) -> Restored:
        return self.cache.restore(threading.Event(), ONCE, ignored)

    def compile(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(content)

    def publish(self) -> Published | None:
        return self.cache.publish(threading.Event(), ONCE)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def start(tmp_path: Path, store: Store) -> Callable[..., Start]:
    count = iter(range(100))
    return lambda **options: Start(tmp_path / f"start-{next(count)}", store, **options)


def keys(store: Store) -> list[str]:
    return [stored.key for stored in store.list("bucket", "caches/")]


def manifests(store: Store) -> list[str]:
    return [key for key in keys(store) if key.endswith(".json")]


def rewrite(store: Store, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the newest manifest, as anybody who may write to the bucket can."""
    key = manifests(store)[0]
    document = json.loads(b"".join(store.read("bucket", key)))
    change(document)
    store.write_bytes("bucket", key, json.dumps(document).encode())


def test_a_published_cache_is_restored_by_the_next_start(start: Callable[..., Start]) -> None:
    first, second = start(), start()
    assert first.restore() == Restored()
    first.compile(FILES)
    assert first.publish() == Published(2, 1005, 2)
    restored = second.restore()
    assert (restored.files, restored.size, restored.downloaded, restored.job) == (2, 1005, 2, "job")
    assert second.files() == FILES
    assert not (second.root / ".ma_boot").exists()


def test_without_a_change_no_file_is_published_or_downloaded(
    start: Callable[..., Start], store: Store
) -> None:
    first, second = start(), start()
    first.compile(FILES)
    first.publish()
    before = keys(store)
    assert first.publish() is None
    second.restore()
    os.utime(second.root / "triton/K/k.cubin")  # a hit, as some compilers mark it
    assert second.publish() is None
    assert keys(store) == before
    # A container that was kept.
    again = Start(second.base, store)
    assert again.restore().downloaded == 0


def test_another_key_finds_nothing(start: Callable[..., Start]) -> None:
    first = start()
    first.compile(FILES)
    first.publish()
    assert start(key="c0df-50f7").restore() == start(key="c0de-50f8").restore() == Restored()


def test_the_second_version_of_a_start_replaces_its_first_and_uploads_only_new_files(
    start: Callable[..., Start], store: Store
) -> None:
    first = start()
    first.compile(FILES)
    first.publish()
    first.compile({"triton/L/l.cubin": b"more"})
    assert first.publish() == Published(3, 1009, 1)
    assert len(manifests(store)) == 1
    assert len(keys(store)) == 4
    assert start().restore().files == 3


def test_the_newest_caches_are_kept(start: Callable[..., Start], store: Store) -> None:
    for number in range(4):
        each = start()
        each.restore()
        each.compile({f"triton/{number}": b"%d" % number})
        each.publish()
    assert len(manifests(store)) == 2
    assert start().restore().files == 4
    assert sum("attempt-0000" in key for key in keys(store)) == 3 + 4


def test_a_start_that_dies_before_its_manifest_leaves_the_former_cache(
    start: Callable[..., Start], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    first.compile(FILES)
    first.publish()
    second.restore()
    second.compile({"triton/L/l.cubin": b"more"})

    def fail(*words: object) -> str:
        raise Unreachable("gone")

    monkeypatch.setattr(type(store), "write_bytes", fail)
    with pytest.raises(Unreachable):
        second.publish()
    monkeypatch.undo()
    assert start().restore().files == 2
    # The same start tries again later.
    assert second.publish() == Published(3, 1009, 1)
    assert start().restore().files == 3


def test_files_of_a_start_that_was_killed_are_removed_later(
    start: Callable[..., Start], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = f"caches/{KEY}/attempt-000001-dead/triton/x"
    store.write_bytes("bucket", left, b"x")
    first, second = start(), start()
    first.compile(FILES)
    first.publish()
    assert left in keys(store)  # it may still be publishing
    monkeypatch.setattr(compile_cache, "SPARED_SECONDS", -10.0)
    second.restore()
    second.compile({"triton/L": b"l"})
    second.publish()
    assert left not in keys(store)
    assert start().restore().files == 3


@pytest.mark.parametrize(
    ("options", "why"),
    [(CacheOptions(max_files=1), "max_files"), (CacheOptions(max_bytes=1000), "max_bytes")],
)
def test_a_cache_over_a_bound_is_neither_published_nor_restored(
    start: Callable[..., Start], store: Store, options: CacheOptions, why: str
) -> None:
    small = start(options=options)
    small.compile(FILES)
    with pytest.raises(CheckpointDamaged, match=why):
        small.publish()
    assert keys(store) == []
    large = start()
    large.compile(FILES)
    large.publish()
    small = start(options=options)
    assert small.restore() == Restored()
    assert why in small.said[0]
    assert not small.root.exists()


def test_links_locks_and_unfinished_files_are_not_published(start: Callable[..., Start]) -> None:
    first = start()
    first.compile({**FILES, "torchinductor/locks/a.lock": b"", "triton/tmp.pid_1/k": b"half"})
    (first.root / "secret").symlink_to("/etc/passwd")
    (first.root / "up").symlink_to("..")
    published = first.publish()
    assert published is not None
    assert published.files == 2


def set_first(**fields: object) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["files"][0].update(fields)


@pytest.mark.invariant("Nothing but the verified files of a manifest for this code and software is executed")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (set_first(path="../../evil.so"), "damaged manifest"),
        (set_first(path="/tmp/evil.so"), "damaged manifest"),
        (set_first(path=".ma_boot/restoring/x"), "damaged manifest"),
        (set_first(key="../other/attempt-000001-aa/x"), "damaged manifest"),
        (set_first(key="attempt-000009-aaaa/x"), "damaged manifest"),
        (set_first(crc64="0" * 16), "not the one that was published"),
        (set_first(size=3), "expected 3|bytes"),
        (set_first(size=-1), "damaged manifest"),
        (set_first(size=10**18), "max_bytes"),
        (set_first(crc64=None), "damaged manifest"),
        (lambda document: document.update(layout="compile-cache c0de-0000"), "other code or software"),
        (lambda document: document.update(layout="megatron"), "other code or software"),
        (lambda document: document.update(attempt="attempt-000007-aaaa"), "damaged manifest"),
        (lambda document: document.update(files=[]), "no part has files"),
        (lambda document: document.update(files={"a": 1}), "damaged manifest"),
        (lambda document: document.update(format=2), "damaged manifest"),
        (lambda document: document["files"].append({**document["files"][0], "path": "a\0b"}), "damaged"),
    ],
)
def test_a_hostile_manifest_is_refused_and_the_older_cache_used(
    start: Callable[..., Start], store: Store, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    good, evil, victim = start(), start(), start()
    good.compile(FILES)
    good.publish()
    evil.restore()
    evil.compile({"triton/E": b"evil"})
    evil.publish()
    rewrite(store, change)
    restored = victim.restore()
    assert len(victim.said) == 1
    assert any(part in victim.said[0] for part in why.split("|"))
    assert restored.files == 2
    assert victim.files() == FILES


def test_a_manifest_that_is_too_long_is_not_read(
    start: Callable[..., Start], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    first.compile(FILES)
    first.publish()
    monkeypatch.setattr(records, "MOST_BYTES", 100)
    assert second.restore() == Restored()
    assert "gone or damaged" in second.said[0]


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a")])
def test_a_file_that_is_also_a_directory_ends_the_restore_alone(
    start: Callable[..., Start], store: Store, paths: tuple[str, str]
) -> None:
    first, victim = start(), start()
    first.compile(FILES)
    first.publish()

    def clash(document: dict[str, Any]) -> None:
        for file, path in zip(document["files"], paths):
            file["path"] = path

    rewrite(store, clash)
    with pytest.raises(Exception, match=r"(?i)directory|failed|is a"):
        victim.restore()


def test_a_link_in_the_directory_leads_no_file_out_of_it(start: Callable[..., Start], tmp_path: Path) -> None:
    first, victim = start(), start()
    first.compile(FILES)
    first.publish()
    outside = tmp_path / "outside"
    outside.mkdir()
    victim.root.mkdir(parents=True)
    (victim.root / "triton").symlink_to(outside)
    with pytest.raises(Exception, match=r"link|outside"):
        victim.restore()
    assert list(outside.iterdir()) == []


def test_an_object_that_was_replaced_is_not_used(start: Callable[..., Start], store: Store) -> None:
    first, victim = start(), start()
    first.compile(FILES)
    first.publish()
    (key,) = (key for key in keys(store) if key.endswith("k.so"))
    store.write_bytes("bucket", key, b"no" * 500)
    assert victim.restore() == Restored()
    assert victim.files() == {}
    assert len(victim.said) == 1
