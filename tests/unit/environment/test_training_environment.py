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


def test_it_is_taken_away_and_that_is_said(own: Path, system: Path) -> None:
    outside = outside_of(str(own), {**path(own, system), "VIRTUAL_ENV": str(own)})
    assert outside.environ == path(system)
    assert outside.note == "skipped ma_boot's own python"


def test_nothing_is_said_of_it_where_another_one_was_first(own: Path, system: Path, tmp_path: Path) -> None:
    torch = environment(tmp_path / "torch", "python")
    assert outside_of(str(own), path(torch, own, system)) == Outside(path(torch, system))
    (own / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    assert outside_of(str(own), path(torch, own)).note == ""


def test_also_by_another_name_and_twice(own: Path, system: Path, tmp_path: Path) -> None:
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


def test_without_another_python_it_is_used_and_that_is_said(own: Path, tmp_path: Path) -> None:
    environ = path(own, environment(tmp_path / "none", "bash"))
    assert outside_of(str(own), environ) == Outside(
        environ, "ma_boot's own environment: there is no other python on PATH"
    )


def test_with_a_framework_it_is_the_trainings_and_that_is_said(own: Path, system: Path) -> None:
    (own / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    environ = path(own, system)
    assert outside_of(str(own), environ) == Outside(environ, "ma_boot's own environment, which has torch")


def test_a_python3_wins_over_its_python(own: Path, system: Path) -> None:
    environ = outside_of(str(own), path(own, system)).environ
    selected = find_on_path(environ, "/nowhere", "PATH")
    assert selected is not None
    assert selected.python == str(system / "bin" / "python3")


def test_nothing_changes_where_it_is_not_on_path(own: Path, system: Path) -> None:
    for prefix, environ in ((str(own), path(system)), (None, path(own, system)), (str(own), {})):
        assert outside_of(prefix, environ) == Outside(environ)
