"""Links cannot put a file outside of the directory that it belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from path_mapping.errors import UnsafeTarget
from path_mapping.localfs import atomic_file
from path_mapping.localfs.atomic_file import TargetDir


@pytest.mark.parametrize("outside", ["elsewhere", "data2"], ids=["elsewhere", "a name that begins alike"])
def test_a_link_out_of_the_root_is_refused_and_nothing_is_made(tmp_path: Path, outside: str) -> None:
    (tmp_path / outside).mkdir()
    root = tmp_path / "data"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / outside)
    with pytest.raises(UnsafeTarget, match="outside of"):
        TargetDir(str(root / "link" / "deeper"), str(root))
    assert list((tmp_path / outside).iterdir()) == []


def test_a_link_within_the_root_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    directory = TargetDir(str(tmp_path / "link" / "deeper"), str(tmp_path))
    directory.close()
    assert (tmp_path / "real" / "deeper").is_dir()


def test_a_link_that_comes_after_the_first_check_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "data", tmp_path / "elsewhere"
    root.mkdir()
    outside.mkdir()

    def replaced_by_a_link(path: Path) -> list[Path]:
        path.symlink_to(outside)
        return []

    monkeypatch.setattr(atomic_file, "make_directories", replaced_by_a_link)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UnsafeTarget, match="a link leads to"):
        TargetDir(str(root / "in"), str(root))
    assert os.listdir("/proc/self/fd") == before
