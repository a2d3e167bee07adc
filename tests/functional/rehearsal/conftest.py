"""A user's machine, on which jobs are rehearsed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.functional.node import RANK


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    """A directory with a training script, a mapping, and OBS beside it."""
    (tmp_path / "project").mkdir()
    shutil.copyfile(RANK, tmp_path / "project" / "train.py")
    mapping = {"input": {"data": "obs://bucket/data/"}, "output": {"out": "obs://bucket/out/"}}
    (tmp_path / "project" / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    (tmp_path / "obs" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "obs" / "bucket" / "data" / "x").write_text("input")
    return tmp_path
