"""What lies below a local directory, and the files that this package leaves there."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from path_mapping.localfs import allocate
from path_mapping.localfs.unfinished import PartJournal
from path_mapping.planning import BegunUploads, files_below
from tests.requirement import unavailable

LISTED = """
import sys
from pathlib import Path
from path_mapping.planning import files_below
for name, entry in files_below(Path(sys.argv[1])):
    print(name, entry.kind, entry.problem, sep="|")
"""


def listed_without_privileges(root: Path) -> List[str]:
    """What `files_below` finds as somebody whom permissions hold back."""
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


def test_records_are_no_files(tmp_path: Path) -> None:
    for name in (".data.ma_sync", ".data.ma_sync-journal", "kept", "y.ma_sync"):
        (tmp_path / name).touch()
    assert [name for name, _ in files_below(tmp_path)] == ["kept", "y.ma_sync"]


@pytest.mark.parametrize("size", [1 << 21])
def test_space_that_there_is_not_is_an_error_with_its_number(tmp_path: Path, size: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "file").open("wb") as file:
        allocate(file.fileno(), size)
        assert os.fstat(file.fileno()).st_size == size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, before[1]))
        try:
            with pytest.raises(OSError, match="File too large") as raised:
                allocate(file.fileno(), size)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.errno == errno.EFBIG


def test_what_is_left_beside_targets_belongs_to_the_user_and_the_group(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        directory = os.open(tmp_path, os.O_RDONLY)
        PartJournal("journal", directory)
        os.close(directory)
        begun = BegunUploads(tmp_path / "out", "way")
        begun.begun("bucket", "key", "upload")
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert len(list(tmp_path.iterdir())) == 2
        begun.close()
    finally:
        os.umask(umask)
    assert modes == {0o640}
