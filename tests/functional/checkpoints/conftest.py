"""Fixtures of checkpoints: a store on this disk, and starts that are known to be over."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.node.checkpoints import upkeep
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store


@pytest.fixture
def no_earlier_start_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier starts are known to be over at once."""
    monkeypatch.setattr(upkeep, "ANSWER_LOOKS", 0)


@pytest.fixture
def local_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The directory `obs` of the working directory, with a bucket."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    return open_store({}, tmp_path / "obs")
