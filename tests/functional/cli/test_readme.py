"""The first commands of README and tutorial, as they stand there, in a shell, one after the other, from an empty home."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import README, TUTORIAL, script_of


def typed(script: str, home: Path) -> str:
    """What a shell prints that is given these commands, with `ma_boot` as pipx installs it, without a python beside it."""
    (home / "bin").mkdir()
    program = home / "bin" / "ma_boot"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ma_boot "$@"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(home)}
    bash = shutil.which("bash", path="/usr/bin:/bin") or "bash"
    done = subprocess.run(
        [bash, "-c", script], cwd=home, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout.lower()
    assert "HCCL" not in done.stdout
    return done.stdout


@pytest.mark.timeout(300)
def test_the_first_sixty_seconds(tmp_path: Path) -> None:
    title = "In 60 seconds: your own script"
    script = script_of(README, title, title).partition("make rehearse")[0]
    assert script.count("ma_boot --local") == 2
    output = typed(script, tmp_path)
    assert "rank 7 of 8" in output
    assert output.endswith("[ma_boot] exit code 0: success\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "first"]


@pytest.mark.timeout(300)
def test_the_tutorial_up_to_the_image(tmp_path: Path) -> None:
    script = "mkdir tutorial\ncd tutorial\n" + script_of(TUTORIAL, "1. A training", "4. The job file")
    assert script.count("ma_boot --local") == 3
    output = typed(script, tmp_path)
    sums = [(tmp_path / f"tutorial/obs/my-bucket/out/sum-{rank}.txt").read_text() for rank in range(4)]
    assert sums == ["1225\n", "1250\n", "1275\n", "1300\n"]
    assert "it failed, as it should" in output
    assert "exit code 137: node 1, rank 3 was killed by SIGKILL" in output
    assert '"command": "exec ma_boot train.py --epochs 2"' in output
