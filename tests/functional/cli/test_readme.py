"""The first commands of README and tutorial, as they stand there, in a shell, one after the other, from an empty home."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

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


HOW_TO = ROOT / "docs" / "how-to"
IMAGE_LESS = """
mkdir -p obs/my-bucket/data
echo 1 > obs/my-bucket/data/a.tar
echo 2 > obs/my-bucket/data/b.tar
cat > train.py <<'END'
import os, pathlib
rank = os.environ["RANK_ID"]
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/result.txt").write_text(rank)
print("rank", rank, "has", os.listdir("data"))
END
"""


@pytest.mark.parametrize("language", ["", ".zh-CN"])
def test_the_how_to_on_data_runs_on_two_nodes_without_a_warning(tmp_path: Path, language: str) -> None:
    text = (HOW_TO / f"data-in-obs{language}.md").read_text()
    mapping = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    lines = [line for line in "".join(_commands(text)).splitlines() if "--nodes 2" in line or "sync" in line]
    script = ["set -eu", IMAGE_LESS, f"cat > mapping.yaml <<'END'\n{mapping}END", *lines]
    output = typed("\n".join(script).replace("sync plan", "sync plan --obs-root obs"), tmp_path)
    assert len(lines) == 2
    assert output.count("rank 0 has ['a.tar']") == 1
    results = sorted((tmp_path / "obs/my-bucket/out").glob("*/*/result.txt"))
    assert [(path.parent.name, path.read_text()) for path in results] == [("0", "0"), ("1", "1")]


@pytest.mark.parametrize("language", ["", ".zh-CN"])
def test_the_how_to_on_volcano_makes_a_manifest_of_the_job_file_of_the_tutorial(
    tmp_path: Path, language: str
) -> None:
    (tmp_path / "train.py").touch()
    described = script_of(TUTORIAL, "4. The job file", "4. The job file").splitlines()
    init = next(line for line in described if line.startswith("ma_boot job init"))
    lines = "".join(_commands((HOW_TO / f"volcano{language}.md").read_text())).splitlines()
    commands = [line for line in lines if "--local" not in line and not line.startswith("kubectl")]
    typed("\n".join(["set -eu", init, *commands]), tmp_path)
    manifest = list(yaml.safe_load_all((tmp_path / "job-volcano.yaml").read_text()))
    assert manifest[-1]["kind"] == "Job"
