"""The command that an error prints where a package of an extra is missing."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.environment.extras import install_command


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in a directory with a blank in its name, of a ma_boot with two extras."""
    place = tmp_path / "an environment"
    place.mkdir()
    requires = ["click>=8.1", 'docker>=7.0; extra == "image"', 'docker>=7.0; extra == "dev"']
    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    monkeypatch.setattr(sys, "prefix", str(place))
    monkeypatch.setattr(sys, "executable", f"{place}/bin/python")
    return place


def without_pip(name: str, *more: Any) -> None:
    assert name == "pip"


def test_the_command_uses_the_installer_of_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert install_command("image") == f"'{place}/bin/python' -m pip install 'docker>=7.0'"
    monkeypatch.setattr(importlib.util, "find_spec", without_pip)
    assert install_command("image") == f"uv pip install --python '{place}/bin/python' 'docker>=7.0'"
    (place / "pipx_metadata.json").touch()
    assert install_command("image") == "pipx inject ma-boot 'docker>=7.0'"


def test_without_metadata_the_command_installs_from_the_sources_and_never_by_name(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is on no index: whoever registers it there would be installed."""
    monkeypatch.setattr(metadata, "requires", lambda name: [])
    sources = Path(__file__).parents[3]
    assert install_command("job").endswith(f" -m pip install '{sources}[job]'")
