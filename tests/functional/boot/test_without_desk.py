"""A node boots without the wing `desk`: the code for laptops is never needed in a container."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.unit.project.imports import ROOT


def test_node_boots_without_the_desk(tmp_path: Path) -> None:
    for package in ("ma_boot", "path_mapping"):
        ignored = shutil.ignore_patterns("desk", "__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "installed" / package, ignore=ignored)
    assert not (tmp_path / "installed" / "ma_boot" / "desk").exists()
    (tmp_path / "home").mkdir()
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(tmp_path / "installed"),
        "MA_VJ_NAME": "ma-job-1",
        "MA_JOB_DIR": str(tmp_path / "home"),
    }
    words = ["--rendezvous", "torch", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"]
    done = subprocess.run(
        [sys.executable, "-S", "-c", RUN, *words],
        cwd=tmp_path / "home",
        env=environ,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "rank 0, world size 1" in done.stdout) == (0, True), done.stdout + done.stderr


# Without the site module, the path has no editable installation, which would find the real package with its desk;
# the packages of the virtual environment are added by hand.
RUN = f"import sys; sys.path.append({next(path for path in sys.path if path.endswith('site-packages'))!r}); "
RUN += "from ma_boot.__main__ import run; run()"
