"""The first commands of the README, as they stand there, in a shell and one after the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import blocks, not_printed


@pytest.mark.timeout(300)
def test_the_first_sixty_seconds(tmp_path: Path) -> None:
    commands = blocks("In 60 seconds: your own script")
    assert sum(block.count("ma_boot --local") for block in commands) == 3
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ma_boot"  # as pipx and uv install it: without a python beside it
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ma_boot "$@"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    bash = shutil.which("bash", path="/usr/bin:/bin") or "bash"
    script = "set -eu\n" + "".join(commands)
    done = subprocess.run(
        [bash, "-c", script], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "rank 7 of 8" in done.stdout
    assert done.stdout.endswith("sample\n")
    assert "warning" not in done.stdout.lower()
    assert "HCCL" not in done.stdout
    assert not_printed("In 60 seconds: your own script", done.stdout) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "first"]
