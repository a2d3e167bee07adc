"""Modules that a job without transfers and NPUs loads: each one costs every start of a job its time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import Node, eventually

# Of files that move, of images, rehearsals and checks: what is heavy, and what only those need.
NEVER = {
    *("ma_boot.node.checkpoints", "path_mapping.planning", "path_mapping.stores", "path_mapping.transfer"),
    *("path_mapping.workers", "path_mapping.file", "obs", "pathspec", "tenacity", "yaml", "multiprocessing"),
    *(
        "ma_boot.node.doctor",
        "ma_boot.desk.image",
        "ma_boot.desk.rehearsal",
        "ma_boot.training",
        "docker",
        "rich",
    ),
    *(
        "ma_boot.node.observe.channel",
        "ma_boot.desk.job_service",
        "huaweicloudsdkcore",
        "requests",
        "ssl",
        "asyncio",
    ),
}
ONLY_AT_THE_END = {"ma_boot.report.page", "ma_boot.report.timeline", "jinja2"}


def loaded(log: Path) -> set[str]:
    """The modules that `python -X importtime` has named so far, with the packages that they are in."""
    names = re.findall(r"^import time:.*\| +([\w.]+)$", log.read_text(), re.MULTILINE)
    return {".".join(name.split(".")[:parts]) for name in names for parts in range(1, name.count(".") + 2)}


@pytest.mark.invariant("Metrics delay no start and never end a training")
def test_plain_job_loads_no_module_of_unused_features(node: Node, tmp_path: Path) -> None:
    log, go_on = tmp_path / "importtime", tmp_path / "go-on"
    rank = ["bash", "-c", 'touch "$0.$RANK_ID"; until [[ -e $0 ]]; do sleep 0.02; done', str(go_on)]
    boot = [sys.executable, "-X", "importtime", "-m", "ma_boot", "--", *rank]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            boot, cwd=node.home, env=node.environ(), stderr=errors, stdout=subprocess.DEVNULL
        ) as job,
    ):
        eventually(lambda: len(list(tmp_path.glob("go-on.?"))) == node.devices, "all ranks run")
        while_the_ranks_run = loaded(log)
        go_on.touch()
        assert job.wait(60) == 0
    whole = loaded(log)
    assert {"ma_boot.node.boot.boot", "ma_boot.node.supervisor"} <= while_the_ranks_run, (
        "it is this that is measured"
    )
    assert while_the_ranks_run & (NEVER | ONLY_AT_THE_END) == set()
    assert whole & NEVER == set()
    assert whole > ONLY_AT_THE_END, "the page is made of these"
