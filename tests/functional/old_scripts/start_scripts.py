"""Machines on which a start script, or the line that replaces it, runs a training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ma_boot.platform.rank_table import convert, fake, parse
from tests.functional.node import eventually

START_SCRIPTS = {"own": Path(__file__).parents[1] / "start_scripts"}

if "MABOOT_ORIGINALS" in os.environ:
    START_SCRIPTS["published"] = Path(os.environ["MABOOT_ORIGINALS"])

# This python has pytest; ma_boot does not use its own environment for the training by default.
OWN_PYTHON = {"MABOOT_PYTHON": sys.executable}

# X2MindSpore's published script has a gap for the command that trains.
GAP, COMMAND = '"please input your shell script here"', 'python "${execute_path}"/train.py --epochs 2'

# Set by the shell, Python, pytest and MPI themselves, not by a start script for the training.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS", "PYTEST_", "OMPI_", "PMIX_", "ORTE_", "OPAL_")

# Variables to which ma_boot adds.
EXTENDED = ("PATH", "PYTHONPATH", "LC_CTYPE")

TRAIN = """
import json, os, sys
print("training", *sys.argv[1:], flush=True)
names = ("OMPI_COMM_WORLD_RANK", "RANK_ID", "RANK", "MS_NODE_ID")
rank = next((os.environ[name] for name in names if name in os.environ), "99")
seen = {"environ": dict(os.environ), "cwd": os.getcwd(), "script": __file__}
with open(os.path.join(os.environ["SEEN"], rank + ".part"), "w") as file:
    json.dump(seen, file)
os.rename(file.name, file.name[:-5])
"""


class Machine:
    """A machine for one way to start: the project, its rank table, and the environments of the ranks."""

    def __init__(self, root: Path, devices: Sequence[int] = (2,)) -> None:
        self.root = root
        self.seen_dir = root / "seen"
        (root / "home").mkdir(parents=True)
        self.seen_dir.mkdir()
        (root / "src").mkdir()
        (root / "src" / "net.py").write_text("")
        for name in ("train.py", "resnet50_distributed_training.py"):
            (root / name).write_text(TRAIN + "\ndef test_train(): pass\n")
        (root / "resnet.py").write_text("")
        (root / "config.yaml").write_text("lr: 1\n")
        document = fake(len(devices), devices[0])
        self.table = root / f"rank_table_{sum(devices)}pcs.json"
        self.table.write_text(convert(parse(document)).dumps())

    def run_script(
        self,
        script: Path,
        *arguments: str,
        directory: str = "scripts",
        more: Mapping[str, str] = {},
        ranks: int = 2,
    ) -> list[Mapping[str, str]]:
        """Runs a start script from a directory of the project."""
        target = self.root / directory / script.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(script.read_text().replace(GAP, COMMAND))
        return self.run(["bash", str(target.relative_to(self.root)), *arguments], more, ranks)

    def run_line(self, line: str, more: Mapping[str, str] = {}, ranks: int = 2) -> list[Mapping[str, str]]:
        """Runs a line as a user types it."""
        return self.run(["bash", "-c", line], more, ranks)

    def run(
        self, argv: Sequence[str], more: Mapping[str, str] = {}, ranks: int = 2
    ) -> list[Mapping[str, str]]:
        """Runs a program to its end; returns the environment of each rank."""
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        environ = {
            "PATH": path,
            "HOME": str(self.root / "home"),
            "SEEN": str(self.seen_dir),
            "MY_OWN": "kept",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it starts sooner
        }
        done = subprocess.run(
            argv, cwd=self.root, env={**environ, **more}, check=False, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return self.seen(ranks)

    def light_pytest(self) -> dict[str, str]:
        """Returns variables for a python whose pytest only runs the file: the script starts it dozens of times."""
        place = self.root / "light"
        place.mkdir()
        (place / "python").symlink_to(sys.executable)
        (place / "pytest.py").write_text("import runpy, sys\nrunpy.run_path(sys.argv[-1])\n")
        command = place / "pytest"
        command.write_text('#!/bin/sh\nexec python -m pytest "$@"\n')
        command.chmod(0o755)
        path = f"{place}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "PYTHONPATH": str(place), "MABOOT_PYTHON": str(place / "python")}

    def seen(self, count: int) -> list[Mapping[str, str]]:
        """Returns the environment of each rank, with paths as if all machines had the same."""
        files = eventually(
            lambda: (
                len(files := [f for f in self.seen_dir.iterdir() if f.suffix != ".part"]) == count and files
            ),
            f"{count} ranks",
        )
        texts = [file.read_text() for file in sorted(files, key=lambda file: int(file.name))]
        ranks = [json.loads(text.replace(str(self.root), "ROOT")) for text in texts]
        self.cwds, self.scripts = [rank["cwd"] for rank in ranks], [rank["script"] for rank in ranks]
        return [rank["environ"] for rank in ranks]


def given(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(NOISE)}
