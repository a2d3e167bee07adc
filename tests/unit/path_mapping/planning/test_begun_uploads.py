"""Multipart uploads that a run began and did not end: only those of dead runs are taken over."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from path_mapping.planning.record import BegunUpload, BegunUploads, noted_uploads

WAY = "upload obs://bucket/out/"
ONE, OTHER = BegunUpload("bucket", "out/a", "id-1"), BegunUpload("bucket", "out/b", "id-2")


def killed(target: Path, *uploads: BegunUpload, way: str = WAY) -> Path:
    """Returns the file of a run that noted these uploads and was killed: the file exists, its lock does not."""
    before = set(target.parent.iterdir())
    run = BegunUploads(target, way)
    for upload in uploads:
        run.begun(*upload)
    run.close()
    return next(iter(set(target.parent.iterdir()) - before), Path())


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_next_run_takes_over_what_a_killed_one_left(tmp_path: Path) -> None:
    killed(tmp_path / "out", ONE, OTHER)
    killed(tmp_path / "out", BegunUpload("bucket", "out/a", "id-3"))
    run = BegunUploads(tmp_path / "out", WAY)
    assert {upload.upload for upload in run.left()} == {"id-1", "id-2", "id-3"}
    assert len(files(tmp_path)) == 1, "in a file of its own now"
    assert sorted(run.take("bucket", "out/a")) == ["id-1", "id-3"]
    assert run.take("bucket", "out/a") == ()
    assert run.take("another", "out/b") == ()
    assert run.left() == [OTHER]
    for upload in ("id-1", "id-2", "id-3"):
        run.ended(upload)
    assert run.left() == []
    run.close()
    assert files(tmp_path) == [], "nothing is left, so no file is"


def test_uploads_taken_over_and_not_ended_are_left_to_the_next_run(tmp_path: Path) -> None:
    killed(tmp_path / "out", ONE, OTHER)
    second = BegunUploads(tmp_path / "out", WAY)
    assert second.take("bucket", "out/a") == ("id-1",)
    second.ended("id-2")
    second.close()
    assert noted_uploads(tmp_path / "out", WAY).left == (ONE,)
    assert BegunUploads(tmp_path / "out", WAY).left() == [ONE]


def test_uploads_of_a_living_run_are_in_use(tmp_path: Path) -> None:
    alive = BegunUploads(tmp_path / "out", WAY)
    alive.begun(*ONE)
    killed(tmp_path / "out", OTHER)
    noted = noted_uploads(tmp_path / "out", WAY)
    assert (noted.left, noted.used) == ((OTHER,), frozenset({"id-1"}))
    assert len(files(tmp_path)) == 2, "a look changes nothing"
    run = BegunUploads(tmp_path / "out", WAY)
    assert run.left() == [OTHER]
    run.close()
    alive.ended("id-1")
    alive.close()
    assert len(files(tmp_path)) == 1


def test_each_way_and_each_target_has_its_own(tmp_path: Path) -> None:
    killed(tmp_path / "out", ONE)
    assert BegunUploads(tmp_path / "out", "upload obs://bucket/elsewhere/").left() == []
    assert BegunUploads(tmp_path / "out2", WAY).left() == []
    assert noted_uploads(tmp_path / "ou", WAY).left == ()
    (name,) = files(tmp_path)
    (tmp_path / name).rename(tmp_path / f"{name}.bak")
    assert BegunUploads(tmp_path / "out", WAY).left() == [], "another file's name begins alike"


def test_torn_lines_and_those_of_others_are_passed_over(tmp_path: Path) -> None:
    file = killed(tmp_path / "out", ONE)
    with file.open("ab") as more:
        more.write(b'{"begun": "x"}\n[]\n7\nnull\n{"ended": "unknown"}\n{"begun": "torn", "bucket": "buck')
    run = BegunUploads(tmp_path / "out", WAY)
    run.begun(*OTHER)
    run.close()
    assert noted_uploads(tmp_path / "out", WAY).left == (ONE, OTHER)


def test_a_file_of_a_killed_run_in_which_all_has_ended_is_removed(tmp_path: Path) -> None:
    with killed(tmp_path / "out", ONE).open("ab") as more:
        more.write(b'{"ended": "id-1"}\n')
    BegunUploads(tmp_path / "out", WAY).close()
    assert files(tmp_path) == []


def test_an_upload_begun_twice_is_noted_once_in_a_file_of_user_and_group(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = BegunUploads(tmp_path / "out", WAY)
        assert files(tmp_path) == [], "hardly any transfer begins one"
        for _ in range(2):
            run.begun(*ONE)
    finally:
        os.umask(before)
    (name,) = files(tmp_path)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640
    assert (tmp_path / name).read_text().count("id-1") == 1
    run.ended("unknown")
    run.ended("id-1")
    run.close()
    run.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    file = killed(tmp_path / "out", ONE)
    file.rename(tmp_path / "theirs")
    file.symlink_to("theirs")
    assert BegunUploads(tmp_path / "out", WAY).left() == []
    assert (tmp_path / "theirs").exists()


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_place_for_the_file_nothing_is_noted_and_nothing_fails(
    tmp_path: Path, missing: bool
) -> None:
    if not missing:
        (tmp_path / "no directory").touch()
    run = BegunUploads(tmp_path / "no directory" / "out", WAY)
    run.begun(*ONE)
    assert run.left() == []
    run.ended("id-1")
    run.close()
    assert noted_uploads(tmp_path / "no directory" / "out", WAY).left == ()


def test_where_files_cannot_be_locked_nothing_is_noted_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network disks have no locks: then no process can tell whether the owner lives."""

    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    run, before = BegunUploads(tmp_path / "out", WAY), len(os.listdir("/proc/self/fd"))
    run.begun(*ONE)
    assert (files(tmp_path), len(os.listdir("/proc/self/fd"))) == ([], before)
    run.close()
