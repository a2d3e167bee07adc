"""What software a job runs, as files tell."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

import pytest

from ma_boot.environment import software_of


def test_versions_of_a_python_and_of_the_frameworks_beside_it(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.9" / "site-packages"
    for name in (
        "torch-2.6.0",
        "torch_npu-2.6.0.post1",
        "mindspore-2.4.1",
        "numpy-1.26.4",
        "torchvision-0.21.0",
    ):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    versions = {"python": "3.9", "torch": "2.6.0", "torch-npu": "2.6.0.post1", "mindspore": "2.4.1"}
    assert software_of(str(tmp_path / "bin" / "python"), None, {}, "/") == versions


@pytest.mark.parametrize(
    ("variable", "local", "whole", "version"),
    [
        ("3.9.1", "3.10.2", "3.11.7", "3.9"),
        (None, "3.10.2\n3.9.1\n", "3.11.7", "3.10"),
        (None, None, "3.11.7:3.9.1", "3.11"),
        (None, None, "", None),
        ("system", None, "3.11.7", None),
    ],
)
def test_a_shim_of_pyenv_is_the_python_that_it_starts(
    tmp_path: Path, variable: Optional[str], local: Optional[str], whole: str, version: Optional[str]
) -> None:
    for name in ("3.9.1", "3.10.2", "3.11.7"):
        short = name.rpartition(".")[0]
        (tmp_path / "versions" / name / "lib" / f"python{short}" / "site-packages").mkdir(parents=True)
    cwd = tmp_path / "work" / "below"
    cwd.mkdir(parents=True)
    (tmp_path / "version").write_text(whole)
    if local:
        (cwd.parent / ".python-version").write_text(local)
    environ = {"PYENV_VERSION": variable} if variable else {}
    software = software_of(str(tmp_path / "shims" / "python"), None, environ, str(cwd))
    assert software == ({"python": version} if version else {})


@pytest.mark.parametrize("python", ["python", "/nowhere/bin/python", "/python"])
def test_what_no_file_tells_is_left_out(python: str, tmp_path: Path) -> None:
    assert software_of(python, str(tmp_path), {}, str(tmp_path)) == {}


@pytest.mark.parametrize("after", ["", "git pack-refs --all", "git checkout -q --detach"])
def test_the_commit_of_the_code_as_git_says_it(tmp_path: Path, after: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    script = f"git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && {after or ':'}"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert software_of("python", str(code), {}, str(code)) == {"commit": head.stdout[:12]}
