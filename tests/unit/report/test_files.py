"""Files that a run leaves: earlier ones are kept, and no reader sees half of one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.errors import CannotCreate
from ma_boot.report.files import keep_earlier, write_atomically
from tests.requirement import unavailable

ROOT = Path(__file__).parents[3]
WRITES = """
import sys
from pathlib import Path
from ma_boot.report.files import write_atomically
for number in range(300):
    write_atomically(Path(sys.argv[1]), str(number) * 100)
"""


def test_earlier_files_get_the_first_free_number(tmp_path: Path) -> None:
    file = tmp_path / "rank.txt"
    keep_earlier(file)
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second", "third"):
        file.write_text(text)
        keep_earlier(file)
    file.write_text("fourth")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "rank.1.txt": "first", "rank.2.txt": "second", "rank.3.txt": "third", "rank.txt": "fourth",
    }  # fmt: skip


@pytest.mark.parametrize("umask", [0, 0o077])
def test_a_file_is_the_users_and_the_groups_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new" / "place" / "table.json", "text")
    finally:
        os.umask(before)
    write_atomically(tmp_path / "new" / "place" / "table.json", "ü\ud800")
    (written,) = (tmp_path / "new" / "place").iterdir()
    assert (written.name, written.read_bytes()) == ("table.json", "ü\\ud800".encode())
    assert stat.S_IMODE(written.stat().st_mode) == 0o640


def test_a_place_that_cannot_be_written_is_named_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "table.json").mkdir()
    (tmp_path / "table.json" / "kept").touch()
    with pytest.raises(CannotCreate, match=r"cannot write .*table.json: Is a directory"):
        write_atomically(tmp_path / "table.json", "text")
    with pytest.raises(CannotCreate, match=r"File exists|Not a directory"):
        write_atomically(tmp_path / "table.json" / "kept" / "deeper", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["table.json"]


def test_two_processes_with_the_same_number_do_not_meet(tmp_path: Path) -> None:
    """As two containers have them that share a directory: both are process 1."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *user, "--pid", "--fork", sys.executable, "-c", WRITES, str(tmp_path / "file")]
    running = [subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in running]
    if "Operation not permitted" in errors[0]:
        unavailable("a PID namespace cannot be made here")
    assert errors == ["", ""]
    assert [process.returncode for process in running] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "299" * 100
