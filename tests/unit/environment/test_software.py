"""What software a job runs, as files tell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ma_boot.node.environment.software import read_software


def test_versions_of_python_and_frameworks_are_read(tmp_path: Path) -> None:
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
    assert read_software(str(tmp_path / "bin" / "python"), None) == versions


@pytest.mark.parametrize("python", ["python", "/nowhere/bin/python", "/python"])
def test_unknown_versions_are_left_out(python: str, tmp_path: Path) -> None:
    assert read_software(python, str(tmp_path)) == {}


@pytest.mark.parametrize("after", ["", "git pack-refs --all", "git checkout -q --detach"])
def test_the_commit_is_the_one_of_git(tmp_path: Path, after: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    script = f"git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && {after or ':'}"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert read_software("python", str(code)) == {"commit": head.stdout[:12]}
