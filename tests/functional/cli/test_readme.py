"""The first commands of README and tutorial, as they stand there, in a shell, one after the other, from an empty home."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"


def script_of(document: Path, first: str, last: str) -> str:
    """The commands of the chapters from `first` to `last`, as a script of bash; Python code goes into `train.py`."""
    chapters = re.split(r"^## ", document.read_text(), flags=re.MULTILINE)
    titles = [chapter.partition("\n")[0] for chapter in chapters]
    text = "".join(chapters[titles.index(first) : titles.index(last) + 1])
    return "".join(["set -eu\n", *_commands(text)])


def _commands(text: str) -> Iterator[str]:
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "sh":
            yield block
        elif kind == "python":
            yield f"cat > train.py <<'END_OF_FILE'\n{block}END_OF_FILE\n"


def typed(script: str, home: Path) -> str:
    """Returns the output of a shell that is given these commands, with `ma_boot` as pipx installs it, without a python beside it."""
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
