"""Files below a local directory, and the files that this package leaves there."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from path_mapping.localfs.atomic_file import allocate
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.planning.local_tree import files_below, folds_case
from path_mapping.planning.plan import COPY, LocalEntry, Step
from path_mapping.planning.route_scan import scan_upload
from tests.requirement import unavailable

LISTED = """
import sys
from pathlib import Path
from path_mapping.planning.local_tree import files_below
for name, entry in files_below(Path(sys.argv[1])):
    print(name, entry.kind, entry.problem, sep="|")
"""


def listed_without_privileges(root: Path) -> list[str]:
    """Returns the result of `files_below` for a user without permissions."""
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*plain, sys.executable, "-c", LISTED, str(root)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        unavailable(done.stderr)
    return done.stdout.splitlines()


def test_directories_that_cannot_be_read_hide_nothing_else(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "b").chmod(0)
    problem = "directory|cannot be read: Permission denied"
    assert listed_without_privileges(tmp_path) == ["a/file|file|", f"b/|{problem}", "c/file|file|"]
    (tmp_path / "b").chmod(0o700)
    tmp_path.chmod(0o300)
    assert listed_without_privileges(tmp_path) == [f"./|{problem}"]
    tmp_path.chmod(0o700)


def test_files_that_cannot_be_uploaded_have_a_reason_and_no_size(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("abc")
    root = tmp_path / "out"
    for name in ("a", "empty"):
        (root / name).mkdir(parents=True)
    (root / "a" / "file").write_text("abc")
    os.utime(root / "a" / "file", ns=(0, 7))
    os.utime(root / "empty", ns=(0, 8))
    os.mkfifo(root / "pipe")
    (root / "to a").symlink_to("a")
    (root / "to the file").symlink_to("a/file")
    (root / "to elsewhere").symlink_to(tmp_path / "elsewhere" / "file")
    (root / "to nothing").symlink_to("nothing")
    (root / "to itself").symlink_to("to itself")
    (root / ".x.0123456789abcdef.ma_part").touch()
    assert dict(files_below(root)) == {
        ".x.0123456789abcdef.ma_part": LocalEntry(
            "special", 0, 0, "it has the name of an unfinished file of ma_boot"
        ),
        "a/file": LocalEntry("file", 3, 7),
        "empty/": LocalEntry("directory", 0, 8),
        "pipe": LocalEntry("special", 0, 0, "neither a file nor a directory"),
        "to elsewhere": LocalEntry(
            "link", 0, 0, f"a link out of the output, to {tmp_path / 'elsewhere' / 'file'}"
        ),
        "to itself": LocalEntry("link", 0, 0, f"a link to nothing, {root / 'to itself'}"),
        "to nothing": LocalEntry("link", 0, 0, f"a link to nothing, {root / 'nothing'}"),
        "to the file": LocalEntry("file", 3, 7),
    }


def test_a_file_removed_during_the_listing_hides_no_other(tmp_path: Path) -> None:
    for name in ("b", "e"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    for name in ("a", "c", "d"):
        (tmp_path / name).touch()
    entries = files_below(tmp_path)
    assert next(entries)[0] == "a"
    (tmp_path / "b" / "file").unlink()
    (tmp_path / "b").rmdir()
    (tmp_path / "c").unlink()
    assert [name for name, _ in entries] == ["d", "e/file"]


def test_paths_that_are_too_long_are_named_and_hide_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "out"
    root.mkdir()
    (root / "z").touch()
    here, name = os.open(root, os.O_RDONLY), ""
    while len(str(root)) + len(name) < 3900:  # 4,096 are too many: only what follows
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, name = below, name + "d" * 100 + "/"
    os.mkdir("e" * 200, dir_fd=here)
    os.close(os.open("f" * 200, os.O_CREAT, dir_fd=here))
    os.close(here)
    assert dict(files_below(root)) == {
        name + "e" * 200 + "/": LocalEntry("directory", 0, 0, "cannot be read: File name too long"),
        name + "f" * 200: LocalEntry("file", 0, 0, "cannot be read: File name too long"),
        "z": LocalEntry("file", 0, os.stat(root / "z").st_mtime_ns),
    }


def scanned(output: Path) -> list[Step]:
    """The steps of an output to an empty bucket."""
    scan = scan_upload(
        Route(str(output), ObsUrl("bucket", "out/")), Path("/"), lambda *_: iter(()), notice=print
    )
    return [] if scan is None else list(scan)


def test_an_output_that_is_no_file_and_no_directory_is_refused_with_its_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "to the pipe").symlink_to("pipe")
    problems = {
        name: step.local
        for name in ("pipe", "dangling", "to the pipe", "x" * 256)
        for step in scanned(tmp_path / name)
    }
    assert problems == {
        "pipe": LocalEntry("file", 0, 0, "neither a file nor a directory"),
        "dangling": LocalEntry("link", 7, os.lstat(tmp_path / "dangling").st_mtime_ns, "a link to nothing"),
        "to the pipe": LocalEntry("file", 0, 0, "neither a file nor a directory"),
        "x" * 256: LocalEntry("file", 0, 0, "cannot be read: File name too long"),
    }
    assert scanned(tmp_path / "not here") == []


def test_an_output_may_be_a_link_to_a_file_or_to_a_directory(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("abc")
    (tmp_path / "directory").symlink_to("there")
    (tmp_path / "single").symlink_to("there/file")
    assert [(step.action, step.name, step.size) for step in scanned(tmp_path / "directory")] == [
        (COPY, "file", 3)
    ]
    assert [(step.action, step.name, step.size) for step in scanned(tmp_path / "single")] == [
        (COPY, "single", 3)
    ]


def test_a_disk_ignores_case_if_another_spelling_is_the_same_file(tmp_path: Path) -> None:
    for name in ("data", "123"):
        (tmp_path / name).mkdir()
    assert not folds_case(tmp_path / "data")
    assert not folds_case(tmp_path / "123")
    (tmp_path / "DATA").symlink_to("data")
    assert folds_case(tmp_path / "data")
    assert folds_case(tmp_path / "data" / "456"), "the nearest directory that exists"


def test_records_are_no_files(tmp_path: Path) -> None:
    for name in (".data.ma_sync", ".data.ma_sync-journal", "kept", "y.ma_sync"):
        (tmp_path / name).touch()
    assert [name for name, _ in files_below(tmp_path)] == ["kept", "y.ma_sync"]


def test_space_that_there_is_not_is_an_error_with_its_number(tmp_path: Path) -> None:
    size = 1 << 21
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "file").open("wb") as file:
        allocate(file.fileno(), size)
        assert os.fstat(file.fileno()).st_size == size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            with pytest.raises(OSError, match="File too large") as raised:
                allocate(file.fileno(), 2 * size)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.errno == errno.EFBIG
