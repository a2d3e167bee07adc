"""The first commands of the README, as they stand there, in a shell and one after the other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

README = Path(__file__).parents[3] / "README.md"


def blocks(title: str, kind: str = "sh") -> List[str]:
    """The commands of a chapter; blocks of what they print have no kind."""
    chapter = re.split(r"^## ", README.read_text(), flags=re.MULTILINE)
    (found,) = [part for part in chapter if part.startswith(title + "\n")]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", found, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == kind]


def not_printed(title: str, output: str) -> List[str]:
    """The lines that a chapter shows as printed, and that are not, whatever their numbers and `...` are."""
    lines = [line for block in blocks(title, "") for line in block.splitlines()]
    assert lines
    return [line for line in lines if not re.search(f"^{pattern_of(line)}$", output, re.MULTILINE)]


def pattern_of(line: str) -> str:
    """A shown line as a regular expression: numbers and ids may be others, `...` may be anything."""
    pattern = re.escape(line).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"(?<=job\\-)[0-9a-f]{8}", "[0-9a-f]{8}", pattern)
    return re.sub(r"(\\ )*[0-9]+\\\.[0-9]+", r" *\\d+\\.\\d+", pattern)


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
