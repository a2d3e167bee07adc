"""The how-to page on launchers: its command lines and scripts, and a project for them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.command_lines import lines_in_blocks

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "launchers.md"
STAND_INS = Path(__file__).parent / "stand_ins"
_SCRIPT = re.compile(r"^```sh\n(#!/bin/bash\n# (\S+\.sh) .*?)^```", re.MULTILINE | re.DOTALL)
# The launchers for which there is a stand-in; the others are real, in `make test-torch`.
STOOD_IN = ("llamafactory-cli", "swift", "msrun_launcher.sh")
# Prints the place of a rank that msrun has started, in one write, since the ranks share their output.
_RANK = """\
import os, sys
sys.stdout.write(
    "TRAINED {RANK_ID} of {MS_WORKER_NUM} at {MS_SCHED_HOST}:{MS_SCHED_PORT}\\n".format(**os.environ)
)
"""


def command_lines(stood_in: bool) -> list[str]:
    """Returns the page's command lines with a launcher that is stood in for, or else with a real one."""
    lines = lines_in_blocks(PAGE.read_text())
    return [line for line in lines if any(name in line for name in STOOD_IN) == stood_in]


def make_project(directory: Path) -> Path:
    """Makes a project with the page's scripts and the files that its command lines name."""
    project = directory / "code"
    (project / "scripts").mkdir(parents=True)
    for text, name in _SCRIPT.findall(PAGE.read_text()):
        (project / name).write_text(text)
    for name in ("config.yaml", "data.jsonl"):
        (project / name).touch()
    (project / "ds_config.json").write_text("{}")
    shutil.copy(STAND_INS / "msrun_launcher.sh", project / "scripts")
    (project / "run_mindformer.py").write_text(_RANK)
    return project


def places(output: str) -> list[str]:
    """Returns the places `RANK of SIZE` of the ranks that have trained; all have met at the same address."""
    trained = re.findall(r"TRAINED (\d+ of \d+) at (\S+)", output)
    assert len({address for _, address in trained}) == 1, output
    return sorted(place for place, _ in trained)
