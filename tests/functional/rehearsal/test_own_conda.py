"""`--conda-env NAME` in a rehearsal: the conda of the user's machine, in a shell without `conda init`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def installation(root: Path, *environments: str) -> None:
    """A conda with environments whose python is the one of the tests."""
    for prefix in (root, *(root / "envs" / name for name in environments)):
        (prefix / "conda-meta").mkdir(parents=True)
        (prefix / "bin").mkdir()
        for program in ("python", "conda"):
            (prefix / "bin" / program).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            (prefix / "bin" / program).chmod(0o755)
    (root / "condabin").mkdir()
    (root / "condabin" / "conda").symlink_to("../bin/conda")


def rehearsed(project: Path, environ: dict[str, str], *options: str) -> str:
    (project / "train.py").write_text("import os; print('prefix', os.environ['CONDA_PREFIX'])")
    argv = [sys.executable, "-m", "ma_boot", "--local", *options, "--conda-env", "torch", "train.py"]
    done = subprocess.run(
        argv,
        cwd=project,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize("place", ["home/miniconda3", "home/mambaforge", "elsewhere/conda"])
def test_the_environment_of_the_machine_is_found_without_conda_init(project: Path, place: str) -> None:
    root = project.parent / place
    installation(root, "torch")
    installation(project.parent / "home" / "anaconda3", "another")
    path = f"{root}/condabin:/usr/bin:/bin" if place.startswith("elsewhere") else "/usr/bin:/bin"
    output = rehearsed(project, {"PATH": path, "HOME": str(project.parent / "home")})
    assert f"prefix {root}/envs/torch\n" in output


def test_environments_in_the_home_belong_to_a_conda_of_all_users(project: Path) -> None:
    home = project.parent / "home"
    installation(project.parent / "opt" / "conda")
    installation(home / ".conda", "torch")
    environ = {"PATH": f"{project.parent}/opt/conda/condabin:/usr/bin:/bin", "HOME": str(home)}
    assert f"prefix {home}/.conda/envs/torch\n" in rehearsed(project, environ)
