"""Decisions of a prepared transfer, and the record of its results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from path_mapping.errors import MissingInputs, NoSpace, StoreError, UnsafeTarget
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import Shard
from path_mapping.planning.local_tree import SpaceNeed
from path_mapping.planning.plan import COPY, RecordEntry
from path_mapping.planning.prepare import UploadChoice, prepare_downloads, prepare_uploads
from path_mapping.planning.prepared_transfer import PreparedTransfer
from path_mapping.planning.record import Record
from path_mapping.planning.route_scan import Lister, never_cancelled, scan_download, scan_upload
from path_mapping.stores.objects import StoredObject


def bucket(*objects: StoredObject) -> Lister:
    """Lists these objects of any bucket."""

    def listed(name: str, prefix: str) -> Iterator[StoredObject]:
        items = sorted(objects, key=lambda item: item.key)
        return (item for item in items if item.key.startswith(prefix))

    return listed


def stored(key: str, size: int = 1, etag: str = "x-2") -> StoredObject:
    return StoredObject(key, size, None, f'"{etag}"')


def route(local: str, key: str, **options: bool) -> Route:
    return Route(local, ObsUrl("bucket", key), **options)  # type: ignore[arg-type]


def downloads(base: Path, lister: Lister, *routes: Route, recorded: bool = True) -> PreparedTransfer:
    return prepare_downloads(routes, base, lister, shard=Shard(), check=never_cancelled, recorded=recorded)


def uploads(
    base: Path,
    lister: Lister,
    *routes: Route,
    choice: UploadChoice = UploadChoice(),  # noqa: B008
) -> PreparedTransfer:
    return prepare_uploads(routes, base, lister, choice=choice, check=never_cancelled)


def entries(target: Path, way: str) -> Sequence[RecordEntry]:
    return list(Record(target, way).entries())


class TestDownloads:
    """Inputs, before and after they are fetched."""

    def test_prepared_download_has_copies_directories_and_same_files(self, tmp_path: Path) -> None:
        lister = bucket(stored("a/1", 10), stored("a/2", 5), stored("a/empty/", 0), stored("f", 7, "y"))
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "2").write_bytes(b"12345")
        os.utime(tmp_path / "a" / "2", ns=(0, 7))
        record = Record(tmp_path / "a", "download obs://bucket/a/")
        record.put(RecordEntry("2", 5, 7, "x-2"))
        record.close()
        no = route("no", "nothing/", required=False)
        prepared = downloads(tmp_path, lister, route("a", "a/"), route("single", "f"), no)
        assert (prepared.files, prepared.size, prepared.same, prepared.missing) == (2, 17, 1, (no,))
        assert [tuple(copy) for copy in prepared.copies] == [
            (f"{tmp_path}/a/1", f"{tmp_path}/a", "bucket", "a/1", 10, '"x-2"', 0, 0),
            (f"{tmp_path}/single", str(tmp_path), "bucket", "f", 7, '"y"', 1, 0),
        ]
        assert [copy.path for copy in prepared.directories] == [f"{tmp_path}/a/empty/"]
        assert list(prepared.deletions) == []
        assert list(prepared.targets()) == [tmp_path / "a"], "the single file is none"
        found = prepared.findings
        assert (found.refused, found.blocked, found.notices) == ([], [], [])
        assert prepared.unrecorded == set()

    def test_downloaded_files_with_an_etag_are_recorded(self, tmp_path: Path) -> None:
        prepared = downloads(
            tmp_path, bucket(stored("a/1", 2), StoredObject("a/2", 2, None, "")), route("a", "a/")
        )
        (tmp_path / "a").mkdir()
        for copy in prepared.copies:
            Path(copy.path).write_bytes(b"12")
            os.utime(copy.path, ns=(0, 7))
            prepared.downloaded(copy, checked=True)
        prepared.close()
        assert entries(tmp_path / "a", "download obs://bucket/a/") == [RecordEntry("1", 2, 7, "x-2")]

    @pytest.mark.parametrize("checked", [True, False])
    def test_with_checksum_the_md5_is_recorded_of_what_was_compared(
        self, tmp_path: Path, checked: bool
    ) -> None:
        prepared = downloads(tmp_path, bucket(stored("a/1", 2)), route("a", "a/", checksum=True))
        (tmp_path / "a").mkdir()
        (copy,) = prepared.copies
        Path(copy.path).write_bytes(b"12")
        prepared.downloaded(copy, checked)
        prepared.close()
        (entry,) = entries(tmp_path / "a", "download obs://bucket/a/")
        assert entry.md5 == ("c20ad4d76fe97759aa27a0c99bff6710" if checked else "")

    def test_files_found_to_be_the_same_are_recorded(self, tmp_path: Path) -> None:
        """A run that was killed fetched it; the next one need not read it again."""
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "1").write_bytes(b"12")
        os.utime(tmp_path / "a" / "1", ns=(0, 7))
        md5 = "c20ad4d76fe97759aa27a0c99bff6710"
        downloads(tmp_path, bucket(StoredObject("a/1", 2, md5, f'"{md5}"')), route("a", "a/")).close()
        assert entries(tmp_path / "a", "download obs://bucket/a/") == [RecordEntry("1", 2, 7, md5, md5)]

    def test_a_file_that_has_gone_since_is_not_recorded(self, tmp_path: Path) -> None:
        prepared = downloads(tmp_path, bucket(stored("a/1", 2)), route("a", "a/"))
        for copy in prepared.copies:
            prepared.downloaded(copy, checked=True)
        prepared.close()
        assert entries(tmp_path / "a", "download obs://bucket/a/") == []

    @pytest.mark.invariant("Transfers are checked as a whole before the first byte")
    def test_all_missing_inputs_are_named_before_a_byte_is_written(self, tmp_path: Path) -> None:
        with pytest.raises(MissingInputs) as raised:
            downloads(
                tmp_path, bucket(), route("a", "a/"), route("b", "b/", required=False), route("c", "c/")
            )
        assert raised.value.urls == ("obs://bucket/a/", "obs://bucket/c/")
        assert list(tmp_path.iterdir()) == []

    def test_refusals_are_all_counted_and_at_most_a_thousand_named(self, tmp_path: Path) -> None:
        bad = [stored(f"a/{number:04}//x") for number in range(1001)]
        with pytest.raises(UnsafeTarget) as raised:
            downloads(tmp_path, bucket(*bad), route("a", "a/"))
        assert len(raised.value.problems) == 1000

    def test_inputs_must_not_overlap(self, tmp_path: Path) -> None:
        with pytest.raises(UnsafeTarget, match=f"'{tmp_path}/a/b' is inside '{tmp_path}/a'"):
            downloads(tmp_path, bucket(), route(f"{tmp_path}/a", "a/"), route("a/b", "b/"))

    def test_a_file_that_is_in_the_place_of_a_directory_blocks_only_itself(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "1").mkdir(parents=True)
        prepared = downloads(tmp_path, bucket(stored("a/1"), stored("a/2")), route("a", "a/"))
        assert [(failure.source, str(failure.error)) for failure in prepared.findings.blocked] == [
            (f"{tmp_path}/a/1", "a directory is in the place of this file")
        ]
        assert prepared.files == 1

    @pytest.mark.invariant("Transfers are checked as a whole before the first byte")
    def test_too_little_space_is_reported_before_the_first_byte(self, tmp_path: Path) -> None:
        with pytest.raises(NoSpace, match="GB needed"):
            downloads(tmp_path, bucket(stored("a/1", 1 << 60)), route("a", "a/"))
        assert list(tmp_path.iterdir()) == []

    def test_without_a_record_none_is_written(self, tmp_path: Path) -> None:
        prepared = downloads(tmp_path, bucket(stored("a/1", 2)), route("a", "a/"), recorded=False)
        (tmp_path / "a").mkdir()
        for copy in prepared.copies:
            Path(copy.path).write_bytes(b"12")
            prepared.downloaded(copy, checked=True)
        prepared.close()
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_a_file_that_is_replaced_takes_its_space_twice_and_a_link_is_a_new_file(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "file").write_bytes(b"123")
        (tmp_path / "a" / "link").symlink_to("file")
        objects = (stored("a/file", 10), stored("a/link", 20), stored("a/new", 30))
        scan = scan_download(route("a", "a/"), tmp_path, bucket(*objects), shard=Shard())
        assert scan is not None
        assert [step.action for step in scan] == [COPY, COPY, COPY]
        assert scan.need == SpaceNeed(7 + 20 + 30, 2, 10)
        assert (scan.files, scan.bytes) == ({COPY: 3}, {COPY: 60})

    def test_a_plan_reads_the_records_of_both_directions(self, tmp_path: Path) -> None:
        for way, name in (("download", "a"), ("upload", "out")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "1").write_bytes(b"12345")
            os.utime(tmp_path / name / "1", ns=(0, 7))
            record = Record(tmp_path / name, f"{way} obs://bucket/{name}/")
            record.put(RecordEntry("1", 5, 7, "x-2"))
            record.close()
        lister = bucket(stored("a/1", 5), stored("out/1", 5))
        down = scan_download(route("a", "a/"), tmp_path, lister, shard=Shard())
        up = scan_upload(route("out", "out/"), tmp_path, lister, notice=print)
        assert [[step.reason for step in scan or ()] for scan in (down, up)] == [["unchanged"], ["unchanged"]]


class TestUploads:
    """Outputs, before and after they are sent."""

    def test_prepared_upload_has_copies_and_directories(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        (out / "empty").mkdir(parents=True)
        for name, seconds in (("new", 7200), ("old", 1), ("tiny", 7200)):
            (out / name).write_bytes(b"x" * len(name))
            os.utime(out / name, ns=(0, seconds * 10**9))
        prepared = uploads(tmp_path, bucket(), route("out", "out/"), route("none", "none/"))
        assert (prepared.files, prepared.size) == (3, 10)
        assert [missing.local for missing in prepared.missing] == ["none"]
        (first, *_) = prepared.copies
        assert tuple(first) == (str(out / "new"), str(out), "bucket", "out/new", 3, "", 0, 7200 * 10**9)
        assert [copy.local.name for copy in prepared.newest_first()] == ["new", "tiny", "old"]
        assert [copy.url for copy in prepared.directories] == ["obs://bucket/out/empty/"]

    def test_uploaded_files_are_recorded_until_they_are_forgotten(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        for name in ("a", "b"):
            (tmp_path / "out" / name).write_bytes(b"x")
            os.utime(tmp_path / "out" / name, ns=(0, 7))
        prepared = uploads(tmp_path, bucket(), route("out", "out/"))
        sent = [copy._replace(etag='"e"') for copy in prepared.copies]
        for copy in sent:
            prepared.uploaded(copy)
        prepared.forget(sent[0])
        prepared.close()
        assert entries(tmp_path / "out", "upload obs://bucket/out/") == [RecordEntry("b", 1, 7, "e")]

    def test_a_target_that_cannot_be_listed_is_reported(self, tmp_path: Path) -> None:
        def closed(name: str, prefix: str) -> Iterator[StoredObject]:
            yield from ()
            raise StoreError("no permission")

        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "a").touch()
        pipes = [tmp_path / "out" / name for name in ("pipe", "pipe2")]
        for pipe in pipes:
            os.mkfifo(pipe)
        left_out = [f"{pipe} is left out: neither a file nor a directory" for pipe in pipes]
        prepared = uploads(tmp_path, closed, route("out", "out/"))
        assert prepared.findings.notices == [
            "obs://bucket/out/ cannot be listed, so all files are uploaded: no permission",
            *left_out,
        ]
        assert prepared.files == 1
        unlisted = uploads(tmp_path, closed, route("out", "out/"), choice=UploadChoice(listed=False))
        assert (unlisted.findings.notices, unlisted.files) == (left_out, 1)

    def test_at_most_a_thousand_left_out_files_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        for number in range(1001):
            os.symlink("/dev/null", tmp_path / "out" / f"{number:04}")
        os.mkfifo(tmp_path / "out" / "pipe")
        prepared = uploads(tmp_path, bucket(), route("out", "out/"))
        assert len(prepared.findings.blocked) == 1000
        assert prepared.findings.notices == [
            f"{tmp_path}/out/pipe is left out: neither a file nor a directory"
        ]
        for _ in range(1001):
            prepared.findings.notice("more")
        assert len(prepared.findings.notices) == 1000

    def test_a_link_that_is_not_selected_is_not_named(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "bad").symlink_to("nothing")
        excluded = Route("out", ObsUrl("bucket", "out/"), exclude=("bad",))
        prepared = uploads(tmp_path, bucket(), excluded)
        assert (prepared.findings.blocked, prepared.findings.notices) == ([], [])

    def test_only_wanted_files_are_sent(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        for name in ("a", "b"):
            (tmp_path / "out" / name).touch()
        (tmp_path / "out" / "empty").mkdir()
        asked: list[str] = []

        def wanted(path: str, local: object) -> bool:
            asked.append(path)
            return path.endswith("/b")

        prepared = uploads(tmp_path, bucket(), route("out", "out/"), choice=UploadChoice(wanted=wanted))
        assert [copy.local.name for copy in prepared.copies] == ["b"]
        assert asked == [f"{tmp_path}/out/a", f"{tmp_path}/out/b", f"{tmp_path}/out/empty"]

    def test_outputs_must_not_overlap(self, tmp_path: Path) -> None:
        with pytest.raises(UnsafeTarget, match="use separate URLs"):
            uploads(tmp_path, bucket(), route("a", "out/"), route("b", "out/b/"))


def test_a_check_that_raises_ends_the_preparation(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        prepare_downloads(
            [route("a", "a/")], tmp_path, bucket(stored("a/1")), shard=Shard(), check=stop, recorded=True
        )
