"""Progress before the first byte: checksums of the directory that stands for OBS."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.platform_side import reporting_checksums
from ma_boot.node.transfers.progress import TransferProgress, format_bytes
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from path_mapping.localfs.hash_progress import HashProgress
from path_mapping.stores.directory_store import DirectoryStore
from path_mapping.transfer.scheduler import Progress

SIZE = 3 << 20


def bucket(root: Path) -> Path:
    (root / "bucket").mkdir()
    for name in ("a", "b"):
        (root / "bucket" / name).write_bytes(os.urandom(SIZE))
    return root


def test_a_listing_counts_the_bytes_that_it_reads_and_reads_large_files_once(tmp_path: Path) -> None:
    store = DirectoryStore(bucket(tmp_path))
    seen: list[tuple[int, int]] = []
    hashing = store.hashing
    assert hashing is not None
    hashing.changed = lambda: seen.append((hashing.done, hashing.expected))
    first = list(store.list("bucket", ""))
    assert (hashing.done, hashing.expected) == (2 * SIZE, 2 * SIZE)
    assert {expected for _, expected in seen} == {2 * SIZE}
    assert list(store.list("bucket", "")) == first
    assert hashing.done == 2 * SIZE
    (tmp_path / "bucket" / "a").write_bytes(bytes(SIZE))
    assert list(store.list("bucket", "")) != first
    assert (hashing.done, hashing.expected) == (3 * SIZE, 3 * SIZE)


def test_the_server_of_a_rehearsal_counts_the_same_bytes(tmp_path: Path) -> None:
    buckets = Buckets(bucket(tmp_path))
    for _ in range(2):
        buckets.get("bucket").page("", "", "", 1000)
        assert (buckets.hashing.done, buckets.hashing.expected) == (2 * SIZE, 2 * SIZE)


def test_lines_are_printed_while_checksums_are_computed(tmp_path: Path) -> None:
    hashing, printed = HashProgress(), threading.Event()
    lines: list[str] = []

    def pieces() -> Iterator[bytes]:
        while not printed.is_set():
            yield bytes(1000)

    def say(text: str) -> None:
        lines.append(text)
        printed.set()

    hashing.expect(10**12)
    with reporting_checksums(hashing, say, seconds=0.05):
        for _ in hashing.counted(pieces()):
            pass
    assert lines[0].startswith("checksums of --obs-root: ")
    assert " of 1.0 TB, " in lines[0]
    assert lines[0].endswith(" left")


def test_a_transfer_without_a_bar_prints_checksums_then_files(capfd: pytest.CaptureFixture[str]) -> None:
    hashing = HashProgress()
    with Console() as console:
        progress = TransferProgress("inputs", "download", Journal(console), hashing)
        with progress.shown() as update:
            progress.say()
            hashing.expect(4_700_000_000)
            list(hashing.counted([bytes(1_000_000)]))
            progress.say()
            update(Progress(1, 2, 1_000_000, 4_700_000_000))
            progress.say()
    scanning, checksums, files = capfd.readouterr().out.splitlines()
    assert scanning == "[ma_boot] inputs: scanning"
    assert checksums.startswith("[ma_boot] inputs: checksums: 1.0 MB of 4.7 GB, ")
    assert files.startswith("[ma_boot] inputs: 1 of 2 files, 1.0 MB of 4.7 GB, ")


def test_amounts_have_one_unit_style() -> None:
    assert format_bytes(0, 4_700_000_000, 1.0) == "0 B of 4.7 GB, 0 B/s"
    assert format_bytes(1_000_000_000, 4_700_000_000, 2.0) == "1.0 GB of 4.7 GB, 500 MB/s, 7 s left"
    assert format_bytes(1_000_000, 4_700_000_000, 1.0) == "1.0 MB of 4.7 GB, 1.0 MB/s, 78 min left"
