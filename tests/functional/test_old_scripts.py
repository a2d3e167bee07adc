"""The guides' own start scripts beside the `ma_boot` line that replaces each: what the training sees, for real.

Every row of the migration table is a test here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

import pytest

from ma_boot.rank_table import convert, fake, parse
from tests.functional.node import eventually

ORIGINALS = Path(__file__).parent / "originals"
# Of a shell, of Python's and pytest's start, and of MPI's inner life: no part of what a script gives the training.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS", "PYTEST_", "OMPI_", "PMIX_", "ORTE_", "OPAL_")
TRAIN = """
import json, os, sys
print("training", *sys.argv[1:], flush=True)
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK_ID"]
seen = {"environ": dict(os.environ), "cwd": os.getcwd(), "script": __file__}
with open(os.path.join(os.environ["SEEN"], rank + ".part"), "w") as file:
    json.dump(seen, file)
os.rename(file.name, file.name[:-5])
"""


class Bench:
    """A machine of its own for one way of starting: the project, its rank table, a place for what is seen."""

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
        shutil.copytree(ORIGINALS, root / "scripts")
        document = fake(len(devices), devices[0])
        self.table = root / f"rank_table_{sum(devices)}pcs.json"
        self.table.write_text(convert(parse(document)).dumps())

    @property
    def environ(self) -> Dict[str, str]:
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.root / "home"), "SEEN": str(self.seen_dir), "MY_OWN": "kept"}

    def original(self, script: str, *arguments: str, ranks: int = 2) -> List[Mapping[str, str]]:
        subprocess.run(
            ["bash", script, *arguments],
            cwd=self.root, env=self.environ, check=True, stdout=subprocess.PIPE, timeout=60,
        )  # fmt: skip
        return self.seen(ranks)

    def ma_boot(
        self, *arguments: str, more: Mapping[str, str] = {}, ranks: int = 2
    ) -> List[Mapping[str, str]]:
        done = subprocess.run(
            [sys.executable, "-m", "ma_boot", *arguments],
            cwd=self.root, env={**self.environ, **more}, check=False, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return self.seen(ranks)

    def seen(self, count: int) -> List[Mapping[str, str]]:
        """What each rank saw, by rank, paths as if both machines had the same."""
        files = eventually(
            lambda: (
                len(found := [f for f in self.seen_dir.iterdir() if f.suffix != ".part"]) == count and found
            ),
            f"{count} ranks",
        )
        texts = [file.read_text() for file in sorted(files, key=lambda file: int(file.name))]
        found = [json.loads(text.replace(str(self.root), "ROOT")) for text in texts]
        self.cwds, self.scripts = [one["cwd"] for one in found], [one["script"] for one in found]
        return [one["environ"] for one in found]


@pytest.fixture
def benches(tmp_path: Path) -> List[Bench]:
    return [Bench(tmp_path / "theirs"), Bench(tmp_path / "ours")]


def given(environ: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(NOISE)}


def assert_all_is_there(theirs: Sequence[Mapping[str, str]], ours: Sequence[Mapping[str, str]]) -> None:
    """Every variable of the original, with the same value, in each rank; ours may have more."""
    assert len(theirs) == len(ours)
    for original, replacement in zip(theirs, ours):
        wanted = {name: value for name, value in given(original).items() if name not in ("PATH", "LC_CTYPE")}
        assert {name: replacement.get(name) for name in wanted} == wanted


def test_run_sh(benches: List[Bench]) -> None:
    theirs, ours = benches
    original = theirs.original("scripts/run.sh", "/path/dataset", "2")
    replacement = ours.ma_boot(
        "--rank-table-file", "rank_table_2pcs.json", "--workdir", "per-rank", "--copy-code", "resnet*.py",
        "-m", "pytest", "-s", "-v", "./resnet50_distributed_training.py", more={"DATA_PATH": "/path/dataset"},
    )  # fmt: skip
    assert_all_is_there(original, replacement)
    assert replacement[1]["DATA_PATH"] == "/path/dataset"
    assert replacement[1]["DEVICE_ID"] == replacement[1]["RANK_ID"] == "1"
    assert ours.scripts[1] == "ROOT/device_1/resnet50_distributed_training.py"  # as the original: the copy
    assert "RANK_ID=1\n" in (ours.root / "device_1" / "env.log").read_text()


@pytest.mark.parametrize("start", ["0", "8"])
def test_run_cluster_sh(tmp_path: Path, start: str) -> None:
    theirs, ours = (Bench(tmp_path / name, devices=(8, 8)) for name in ("theirs", "ours"))
    shutil.copy(theirs.root / "scripts" / "run_cluster.sh", theirs.root)
    table = str(theirs.table)
    original = theirs.original("run_cluster.sh", "/path/dataset", table, "16", start, ranks=8)
    replacement = ours.ma_boot(
        "--rank-table-file", str(ours.table), "--rank-size", "16", "--rank-start", start,
        "-m", "pytest", "-s", str(ours.root / "resnet50_distributed_training.py"),
        more={"DATA_PATH": "/path/dataset"}, ranks=8,
    )  # fmt: skip
    assert_all_is_there(original, replacement)
    assert theirs.cwds == ours.cwds  # device_<rank>, for ranks from RANK_START on
    for rank in range(int(start), int(start) + 8):
        assert (ours.root / f"device_{rank}" / f"train{rank}.log").is_file()


def test_run_distributed_ascend_sh_of_x2mindspore(benches: List[Bench]) -> None:
    theirs, ours = benches
    original = theirs.original("scripts/run_distributed_ascend.sh", str(theirs.table), "2", "0", "4")
    replacement = ours.ma_boot(
        "--rank-table-file", str(ours.table), "--rank-size", "2", "--rank-start", "0", "--device-start", "4",
        "train.py", "--epochs", "2",
    )  # fmt: skip
    assert_all_is_there(original, replacement)
    assert [environ["DEVICE_ID"] for environ in replacement] == ["4", "5"]
    assert theirs.cwds == ours.cwds == ["ROOT/device_0", "ROOT/device_1"]
    assert theirs.scripts == ours.scripts
    for rank in (0, 1):
        log = Path(f"device_{rank}", f"train{rank}.log")
        assert (theirs.root / log).read_text() == (ours.root / log).read_text() == "training --epochs 2\n"


def test_run_distribution_ascend_sh(benches: List[Bench]) -> None:
    theirs, ours = benches
    original = theirs.original(
        "scripts/run_distribution_ascend.sh", "2", "0", "rank_table_2pcs.json", "config.yaml"
    )
    replacement = ours.ma_boot(
        "--rank-table-file", "rank_table_2pcs.json", "--workdir", "per-rank",
        "--copy-code", "src", "--copy-code", "*.py",
        "train.py", f"--config_path={ours.root}/config.yaml", "--device_num=2",
    )  # fmt: skip
    assert_all_is_there(original, replacement)
    for rank in (0, 1):
        own = ours.root / f"device_{rank}"
        copied = {path.name for path in (theirs.root / "scripts" / f"train_parallel{rank}").iterdir()}
        assert copied - {"log.txt"} == {path.name for path in own.iterdir()}
        assert (own / "src" / "net.py").is_file()
    assert ours.scripts == ["ROOT/device_0/train.py", "ROOT/device_1/train.py"]


@pytest.mark.openmpi
def test_run_distribution_ascend_sh_with_mpirun(benches: List[Bench]) -> None:
    theirs, ours = benches
    original = theirs.original("scripts/run_distribution_mpirun.sh", "2", "config.yaml")
    replacement = ours.ma_boot("--rendezvous", "mpi", "train.py", "--device_num=2", more={"MA_NUM_GPUS": "2"})
    assert_all_is_there(original, replacement)
    for rank, environ in enumerate(replacement):
        assert environ["OMPI_COMM_WORLD_RANK"] == str(rank)
        assert environ["OMPI_COMM_WORLD_SIZE"] == "2"
        assert "RANK_ID" not in environ


def test_a_second_run_starts_in_fresh_directories_and_masks_secrets(benches: List[Bench]) -> None:
    _, ours = benches
    line = ["--rank-table-file", "rank_table_2pcs.json", "--workdir", "per-rank", "train.py"]
    ours.ma_boot(*line)
    (ours.root / "device_0" / "left.ckpt").write_text("of the first run")
    shutil.rmtree(ours.seen_dir)
    ours.seen_dir.mkdir()
    ours.ma_boot(*line, more={"OBS_SECRET_ACCESS_KEY": "planted"})
    assert [path.name for path in (ours.root / "device_0").iterdir()] == ["env.log"]
    log = (ours.root / "device_0" / "env.log").read_text()
    assert "OBS_SECRET_ACCESS_KEY=******\n" in log
    assert "planted" not in log
    assert not os.path.exists(ours.root / "device_0" / "train0.log")
