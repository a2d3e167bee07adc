"""The python of ma_boot itself is never silently that of the training."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ma_boot.node.environment.conda import find_on_path
from ma_boot.node.environment.training_environment import Outside, outside_of


def environment(place: Path, *names: str) -> Path:
    """A virtual environment with these programs."""
    (place / "bin").mkdir(parents=True)
    for name in names:
        (place / "bin" / name).touch(mode=0o755)
    return place


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return environment(tmp_path / "toolkit", "python", "ma_boot")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    return environment(tmp_path / "system", "python3")


def path(*places: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join(str(place / "bin") for place in places)}


def test_the_own_environment_is_removed_with_a_note(own: Path, system: Path) -> None:
    outside = outside_of(str(own), {**path(own, system), "VIRTUAL_ENV": str(own)})
    assert outside.environ == path(system)
    assert outside.note == "skipped ma_boot's own python"


def test_without_note_if_another_python_was_first(own: Path, system: Path, tmp_path: Path) -> None:
    torch = environment(tmp_path / "torch", "python")
    assert outside_of(str(own), path(torch, own, system)) == Outside(path(torch, system))
    (own / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    assert outside_of(str(own), path(torch, own)).note == ""


def test_the_own_environment_is_removed_under_every_name(own: Path, system: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(own)
    outside = outside_of(str(own), path(own, tmp_path / "link", system))
    assert outside.environ == path(system)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_comes_first(own: Path, system: Path, tmp_path: Path, variable: str) -> None:
    active = environment(tmp_path / "active", "python")
    environ = {variable: str(active)}
    expected = {**path(active, system), **environ}
    assert outside_of(str(own), {**path(own, system), **environ}).environ == expected
    assert outside_of(str(own), {**path(own, active, system), **environ}).environ == expected


def test_without_another_python_the_own_one_is_used_with_a_note(own: Path, tmp_path: Path) -> None:
    environ = path(own, environment(tmp_path / "none", "bash"))
    assert outside_of(str(own), environ) == Outside(
        environ, "ma_boot's own environment: there is no other python on PATH"
    )


def test_an_own_environment_with_a_framework_is_used_with_a_note(own: Path, system: Path) -> None:
    (own / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    environ = path(own, system)
    assert outside_of(str(own), environ) == Outside(environ, "ma_boot's own environment, which has torch")


def test_a_python3_comes_before_the_own_python(own: Path, system: Path) -> None:
    environ = outside_of(str(own), path(own, system)).environ
    selected = find_on_path(environ, "/nowhere", "PATH")
    assert selected is not None
    assert selected.python == str(system / "bin" / "python3")


def test_a_path_without_the_own_environment_is_unchanged(own: Path, system: Path) -> None:
    for prefix, environ in ((str(own), path(system)), (None, path(own, system)), (str(own), {})):
        assert outside_of(prefix, environ) == Outside(environ)
