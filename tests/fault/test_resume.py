"""Large files over a bad connection, and interrupted runs: only missing parts are transferred again."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from hashlib import shake_128
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair as Known
from path_mapping.errors import Cancelled, Refused, Replaced, TransferFailed
from path_mapping.planning.record import BegunUploads
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.blocking import run
from path_mapping.stores.objects import Copy
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.units import PutPart
from path_mapping.transfer import scheduler
from path_mapping.transfer.parts import PoolSize
from path_mapping.transfer.scheduler import Progress
from tests.fault.large_objects import LARGE, MIB, asked, names, put
from tests.functional.node import eventually
from tests.obs import MemoryObs, obs_fault
from tests.transfers import KEYS, content_of, fetch, obs_store, route, send, write

OTHER = shake_128(b"6").digest(len(LARGE))


@pytest.fixture
def store(obs: MemoryObs) -> ObsStore:
    return obs_store(obs.url, multipart_from=12 * MIB, part=5 * MIB, timeout=5)


class TestRanges:
    """A large object is fetched in ranges."""

    def test_large_object_is_downloaded_completely_in_ranges(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        put(obs, "in/large", LARGE, tmp_path)
        assert fetch(store, tmp_path).bytes == len(LARGE)
        assert (tmp_path / "in" / "large").read_bytes() == LARGE
        assert (tmp_path / "in" / "large").stat().st_mode & 0o777 == 0o640
        assert len(asked(obs, "GET", "/in/large")) == 3
        assert names(tmp_path / "in") == ["large"]

    def test_large_objects_are_downloaded_together_and_uploaded_in_turn(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        for name in ("a", "b"):
            put(obs, f"in/{name}", LARGE, tmp_path)
        fetch(store, tmp_path)
        assert [path[-1] for path in asked(obs, "GET", "/in/")] == ["a", "b"] * 3
        send(store, tmp_path, route("in", "out/"))
        sent = [name for path in asked(obs, "PUT", "/out/") for name in "ab" if f"/out/{name}" in path]
        assert len(sent) > 6
        assert sent == sorted(sent)

    @pytest.mark.parametrize("kind", ["503", "reset", "cut", "ignore-range"])
    def test_failed_range_alone_is_downloaded_again(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
    ) -> None:
        put(obs, "in/large", LARGE, tmp_path)
        obs.faults.append(obs_fault(kind, "GET", "/in/large", times=1))
        assert fetch(store, tmp_path).retries == 1
        assert (tmp_path / "in" / "large").read_bytes() == LARGE
        assert len(asked(obs, "GET", "/in/large")) == 4

    def test_an_object_replaced_during_its_download_is_never_mixed(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        put(obs, "in/large", LARGE, tmp_path)
        first = True

        def replace(progress: Progress) -> None:
            nonlocal first
            if progress.bytes_done and first:
                first = False
                put(obs, "in/large", OTHER, tmp_path)

        with pytest.raises(TransferFailed, match="was replaced after it was listed") as raised:
            fetch(store, tmp_path, progress=replace)
        assert isinstance(raised.value.failures[0].error, Replaced)
        assert not (tmp_path / "in" / "large").exists()
        fetch(store, tmp_path)
        assert (tmp_path / "in" / "large").read_bytes() == OTHER
        assert names(tmp_path / "in") == ["large"]


class TestInterruptedDownload:
    """An interrupted run and the next one."""

    def interrupted(self, store: ObsStore, obs: MemoryObs, base: Path) -> list[str]:
        """Leaves a download with two of three ranges; returns the names of its files."""
        put(obs, "in/large", LARGE, base)
        obs.faults.append(obs_fault("403", "GET", "/in/large", times=0))
        seen: list[Progress] = []

        def last_fails(progress: Progress) -> None:
            seen.append(progress)
            obs.faults[0].times = 1 if progress.bytes_done >= 32 * MIB else 0

        with pytest.raises(TransferFailed):
            fetch(store, base, progress=last_fails)
        obs.faults.clear()
        obs.seen.clear()
        return names(base / "in")

    def test_missing_range_alone_is_downloaded(self, store: ObsStore, obs: MemoryObs, tmp_path: Path) -> None:
        left = self.interrupted(store, obs, tmp_path)
        assert len(left) == 2
        assert all(re.fullmatch(r"\.large\.[0-9a-f]{16}(\.parts)?\.ma_part", name) for name in left)
        fetch(store, tmp_path)
        assert (tmp_path / "in" / "large").read_bytes() == LARGE
        assert len(asked(obs, "GET", "/in/large")) == 1
        assert names(tmp_path / "in") == ["large"]

    @pytest.mark.invariant("Data on the disk is verified; the record only saves work")
    @pytest.mark.parametrize("damage", ["zeros", "short", "no journal", "torn journal", "wrong journal"])
    def test_partial_files_on_disk_are_checked(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, damage: str
    ) -> None:
        left = self.interrupted(store, obs, tmp_path)
        journal, part = (tmp_path / "in" / name for name in sorted(left, key=len, reverse=True))
        if damage == "zeros":
            with part.open("r+b") as file:
                file.seek(17 * MIB)
                file.write(bytes(4096))
        elif damage == "short":
            os.truncate(part, MIB)
        elif damage == "no journal":
            journal.unlink()
        elif damage == "torn journal":
            os.truncate(journal, journal.stat().st_size - 3)
        else:
            journal.write_text("0 5\n1 x\n\0\n")
        fetch(store, tmp_path)
        assert (tmp_path / "in" / "large").read_bytes() == LARGE
        expected = {"zeros": 2, "torn journal": 2}.get(damage, 3)
        assert len(asked(obs, "GET", "/in/large")) == expected

    def test_a_new_version_of_the_object_starts_over(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        self.interrupted(store, obs, tmp_path)
        put(obs, "in/large", OTHER, tmp_path)
        fetch(store, tmp_path)
        assert (tmp_path / "in" / "large").read_bytes() == OTHER
        assert names(tmp_path / "in") == ["large"]

    def test_complete_files_are_not_downloaded_again(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        for name in ("a", "b", "c"):
            put(obs, f"in/{name}", name.encode(), tmp_path)
        fetch(store, tmp_path)
        put(obs, "in/b", b"B", tmp_path)  # the same size, another content
        (tmp_path / "in" / "c").write_bytes(b"x")  # modified here
        obs.seen.clear()
        done = fetch(store, tmp_path)
        assert (done.files, done.skipped) == (2, 1)
        assert [(tmp_path / "in" / name).read_bytes() for name in "abc"] == [b"a", b"B", b"c"]
        assert asked(obs, "GET", "/in/a") == []

    def test_leftovers_of_dead_runs_are_removed_and_files_of_live_ones_kept(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        put(obs, "in/a", b"a", tmp_path)
        (tmp_path / "in").mkdir()
        dead, alive = (tmp_path / "in" / f".x.{name}.ma_part" for name in ("dead" * 3, "a11fe" + "0" * 7))
        dead.write_bytes(b"half")
        with alive.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            fetch(store, tmp_path)
            assert names(tmp_path / "in") == [alive.name, "a"]

    def test_leftovers_beside_a_complete_file_are_removed(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        """A run that is killed right after it has moved the file into place leaves this."""
        put(obs, "in/large", LARGE, tmp_path)
        fetch(store, tmp_path)
        (tmp_path / ".in.ma_sync").unlink()
        (tmp_path / "in" / ".large.0123456789abcdef.parts.ma_part").write_text("0 5\n")
        assert fetch(store, tmp_path).skipped == 1
        assert names(tmp_path / "in") == ["large"]


class TestInterruptedUpload:
    """Parts that were uploaded are compared, not sent again."""

    def begun(self, store: ObsStore, base: Path, parts: int, content: bytes) -> str:
        """An upload that a killed run left, with some of its parts."""
        (base / "large").write_bytes(content)
        upload_id = store.begin_parts("bucket", "large").upload
        uploads = BegunUploads(base / "large", "upload obs://bucket/large")
        uploads.begun("bucket", "large", upload_id)
        uploads.close()
        copy = Copy(str(base / "large"), str(base), "bucket", "large", len(content))
        for number in range(1, parts + 1):
            offset, length = (number - 1) * 5 * MIB, 5 * MIB
            part = PutPart(0, copy, upload_id, number, offset=offset, length=length, known="", checked=True)
            run(store.runner(threading.Event()).run(part, lambda size: None))
        return upload_id

    def test_missing_parts_alone_are_uploaded(self, store: ObsStore, obs: MemoryObs, tmp_path: Path) -> None:
        self.begun(store, tmp_path, 2, LARGE)
        obs.seen.clear()
        send(store, tmp_path, route("large", "large"))
        assert len(asked(obs, "PUT", "partNumber=")) == 5
        assert content_of(store, "large") == LARGE

    def test_parts_of_another_content_are_uploaded_again(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        self.begun(store, tmp_path, 2, OTHER)
        (tmp_path / "large").write_bytes(OTHER[: 5 * MIB] + LARGE[5 * MIB :])
        obs.seen.clear()
        send(store, tmp_path, route("large", "large"))
        assert len(asked(obs, "PUT", "partNumber=")) == 6
        assert content_of(store, "large") == OTHER[: 5 * MIB] + LARGE[5 * MIB :]

    @pytest.mark.parametrize("kind", ["503", "reset-body", "wrong-etag", "wrong-crc"])
    def test_failed_part_alone_is_uploaded_again(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
    ) -> None:
        (tmp_path / "large").write_bytes(LARGE)
        obs.faults.append(obs_fault(kind, "PUT", "partNumber=3", times=1))
        retries = send(store, tmp_path, route("large", "large")).retries
        assert retries == 1 or kind == "reset-body"  # reopening a kept connection is no retry
        assert len(asked(obs, "PUT", "partNumber=")) == 8
        assert content_of(store, "large") == LARGE

    def test_changing_large_file_is_uploaded_again_or_reported(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        (tmp_path / "large").write_bytes(LARGE)
        changes = 1

        def change(progress: Progress) -> None:
            nonlocal changes
            if progress.bytes_done and changes > 0:
                changes -= 1
                with (tmp_path / "large").open("ab") as file:
                    file.write(b"more")

        send(store, tmp_path, route("large", "large"), progress=change)
        assert content_of(store, "large") == LARGE + b"more"
        (tmp_path / "large").write_bytes(OTHER)
        changes = 1_000_000
        with pytest.raises(TransferFailed, match="changed during each of 3 uploads"):
            send(store, tmp_path, route("large", "large"), progress=change)
        assert list(store.unfinished("bucket", "large")) == []


class TestCredentials:
    """Keys that expire while files move."""

    def renewing(self, obs: MemoryObs, new: str | None) -> ObsStore:
        def renew() -> Credentials:
            obs.faults[:] = [fault for fault in obs.faults if new is None]
            self.asked += 1
            return Credentials(new or "AKPLANTED", "SKPLANTED", None)

        self.asked = 0
        return ObsStore(Access(obs.url, KEYS), renew=renew)

    def test_expired_keys_are_renewed_during_a_transfer(self, obs: MemoryObs, tmp_path: Path) -> None:
        for number in range(40):
            put(obs, f"in/{number:02}", b"x", tmp_path)
        obs.credentials.append(Known("AKNEW", "SKPLANTED"))
        store = self.renewing(obs, "AKNEW")
        obs.faults.append(obs_fault("expired", "GET", "/in/2"))
        assert fetch(store, tmp_path).files == 40
        assert self.asked == 1

    def test_worker_processes_wait_for_new_keys(
        self, obs: MemoryObs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also those whose requests were in flight, signed with the old ones."""
        monkeypatch.setattr(scheduler, "pool_size", lambda *of, **more: PoolSize(2, 16))
        small = write(tmp_path, {f"out/{number:03}": b"small" for number in range(600)})
        send(obs_store(obs.url), small, route("out", "in/"))
        begun, keys = len(obs.seen), [KEYS]
        store = ObsStore(Access(obs.url, KEYS), lambda: keys[-1], 20.0, lambda text: None)

        def expire() -> None:
            eventually(lambda: len(obs.seen) > begun + 100, "the transfer has begun")
            obs.credentials[:] = [Known("AKNEW", "SKPLANTED")]
            time.sleep(0.5)  # they are late
            keys.append(Credentials("AKNEW", "SKPLANTED"))

        late = threading.Thread(target=expire)
        late.start()
        assert fetch(store, tmp_path).files == 600
        late.join()
        assert keys[-1] != KEYS

    def test_worker_processes_report_missing_keys(
        self, obs: MemoryObs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scheduler, "pool_size", lambda *of, **more: PoolSize(2, 1))
        send(obs_store(obs.url), write(tmp_path, {f"out/{number}": b"x" for number in range(500)}))
        store = ObsStore(Access(obs.url, KEYS), lambda: KEYS, 0.5, lambda text: None)
        obs.faults.append(obs_fault("expired", "GET", "/out/"))
        with pytest.raises(TransferFailed, match=r"(?s)500 of 500 files failed.*ExpiredToken"):
            fetch(store, tmp_path, route("in", "out/"))

    def test_keys_are_renewed_once_where_that_does_not_help(self, obs: MemoryObs, tmp_path: Path) -> None:
        put(obs, "in/a", b"x", tmp_path)
        store = self.renewing(obs, None)
        obs.faults.append(obs_fault("expired", "GET", "/in/a"))
        with pytest.raises(TransferFailed, match="HTTP 403 ExpiredToken") as raised:
            fetch(store, tmp_path)
        assert isinstance(raised.value.failures[0].error, Refused)
        assert self.asked == 1


def test_cancelling_ends_a_large_download_at_once(store: ObsStore, obs: MemoryObs, tmp_path: Path) -> None:
    put(obs, "in/large", LARGE, tmp_path)
    obs.faults.append(obs_fault("drip", "GET", "/in/large"))
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    with pytest.raises(Cancelled):
        fetch(store, tmp_path, cancel=cancel)
    assert not (tmp_path / "in" / "large").exists()


def test_a_trickling_server_times_out_like_a_hanging_one(obs: MemoryObs, tmp_path: Path) -> None:
    put(obs, "in/a", LARGE[: 3 * MIB], tmp_path)
    store = obs_store(obs.url, timeout=0.5)
    obs.faults.append(obs_fault("slow", "GET", "/in/a", times=1))
    assert fetch(store, tmp_path).retries == 1
    assert (tmp_path / "in" / "a").read_bytes() == LARGE[: 3 * MIB]
