"""The guides' own start scripts beside the `ma_boot` line that replaces each: what the training sees, for real.

Every row of the migration table is a test here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

import pytest

from ma_boot.rank_table import convert, fake, parse
from tests.functional.node import eventually

ROOT = Path(__file__).parents[3]
ORIGINALS = Path(__file__).parents[1] / "originals"
# Of a shell, of Python's and pytest's start, and of MPI's inner life: no part of what a script gives the training.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS", "PYTEST_", "OMPI_", "PMIX_", "ORTE_", "OPAL_")
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


def migration_table() -> Dict[str, str]:
    """The documentation's table: what stands at the start of a row, and the new line."""
    text = (ROOT / "docs" / "migration.md").read_text()
    rows = text.partition("<!-- migration table -->")[2].partition("<!-- end of the migration table -->")[0]
    found = re.findall(r"^\| `(.+?)`.* \| `(.+)` \|$", rows, re.MULTILINE)
    assert len(found) == rows.count("\n| `")
    return dict(found)


TABLE = migration_table()


def new_line(old: str, **replaced: str) -> str:
    """The row's line, which begins with `old`; what is only an example in it is replaced."""
    (found,) = (row for row in TABLE if row.startswith(old))
    line = TABLE[found]
    for name, value in replaced.items():
        example = {"table": "/path/rank_table.json", "start": "--rank-start 0", "conda": "--conda-env NAME"}[
            name
        ]
        assert example in line
        line = line.replace(example, value)
    return line


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

    def ma_boot(self, line: str, more: Mapping[str, str] = {}, ranks: int = 2) -> List[Mapping[str, str]]:
        """Runs a line as a user types it."""
        done = subprocess.run(
            ["bash", "-c", line],
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
    replacement = ours.ma_boot(new_line("run.sh"))
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
    line = new_line("run_cluster.sh", table=str(ours.table), start=f"--rank-start {start}")
    replacement = ours.ma_boot(line, ranks=8)
    assert_all_is_there(original, replacement)
    assert theirs.cwds == ours.cwds  # device_<rank>, for ranks from RANK_START on
    for rank in range(int(start), int(start) + 8):
        assert (ours.root / f"device_{rank}" / f"train{rank}.log").is_file()


def test_run_distributed_ascend_sh_of_x2mindspore(benches: List[Bench]) -> None:
    theirs, ours = benches
    original = theirs.original("scripts/run_distributed_ascend.sh", str(theirs.table), "2", "0", "4")
    replacement = ours.ma_boot(new_line("run_distributed_ascend.sh", table=str(ours.table)))
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
    replacement = ours.ma_boot(new_line("run_distribution_ascend.sh DEVICE_NUM START_ID"))
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
    replacement = ours.ma_boot(new_line("run_distribution_ascend.sh DEVICE_NUM CONFIG_PATH"))
    assert_all_is_there(original, replacement)
    for rank, environ in enumerate(replacement):
        assert environ["OMPI_COMM_WORLD_RANK"] == str(rank)
        assert environ["OMPI_COMM_WORLD_SIZE"] == "2"
        assert "RANK_ID" not in environ


@pytest.mark.openmpi
def test_mpirun_in_non_sink_mode(benches: List[Bench]) -> None:
    theirs, ours = benches
    root = "--allow-run-as-root --oversubscribe" if os.geteuid() == 0 else "--oversubscribe"
    script = theirs.root / "non_sink.sh"
    script.write_text(f"GRAPH_OP_RUN=1 HCCL_WHITELIST_DISABLE=1 mpirun {root} -n 2 python train.py\n")
    original = theirs.original("non_sink.sh")
    replacement = ours.ma_boot(new_line("GRAPH_OP_RUN=1 HCCL_WHITELIST_DISABLE=1 mpirun"))
    assert_all_is_there(original, replacement)
    assert {environ["GRAPH_OP_RUN"] for environ in replacement} == {"1"}


def test_the_path_manager_of_x2mindspore(benches: List[Bench]) -> None:
    _, ours = benches
    (ours.root / "obs" / "dataset").mkdir(parents=True)
    (ours.root / "obs" / "dataset" / "a").write_text("input")
    (ours.root / "obs" / "outputs").mkdir()
    mapping = {"input": {"data": "obs://dataset/"}, "output": {"config.yaml": "obs://outputs/c.yaml"}}
    (ours.root / "path_mapping_config.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    more = {"MABOOT_OBS_ROOT": "obs", "RANK_TABLE_FILE": str(ours.table)}
    ours.ma_boot(new_line("ModelArtsPathManager"), more)
    assert (ours.root / "data" / "a").read_text() == "input"
    assert (ours.root / "obs" / "outputs" / "c.yaml").read_text() == "lr: 1\n"


def test_main_py_of_pytorchs_guide(benches: List[Bench]) -> None:
    """`device_id_to_process_device_map` of the guide, as it stands there, beside what each process gets."""
    _, ours = benches
    devices = [int(device) for device in ["1", "2"]]
    devices.sort()
    process_device_map = dict(enumerate(devices))
    shutil.copy(ours.root / "train.py", ours.root / "main.py")
    replacement = ours.ma_boot(new_line("main.py --addr"))
    got = {int(environ["LOCAL_RANK"]): int(environ["DEVICE_ID"]) for environ in replacement}
    assert got == process_device_map
    assert {environ["MASTER_ADDR"] for environ in replacement} == {"127.0.0.1"}  # the guide's default
    assert all(environ["MASTER_PORT"] for environ in replacement)


def platform_table(bench: Bench) -> Dict[str, str]:
    """A node of ModelArts, as far as its launcher looks."""
    config = bench.root / "user-config"
    config.mkdir()
    (config / "jobstart_hccl.json").write_text(json.dumps(fake(1, 2)))
    return {
        "MA_HOME": str(bench.root / "home"), "MA_MOUNT_PATH": str(bench.root / "home" / "modelarts"),
        "RANK_TABLE_FILE": str(config), "MA_VJ_NAME": "ma-job-1", "MA_NUM_GPUS": "2",
    }  # fmt: skip


def test_modelarts_own_launcher(benches: List[Bench]) -> None:
    """davincirun is no part of this project: what it gives each process stands in its `fmk.py`."""
    _, ours = benches
    platform = platform_table(ours)
    seen = ours.ma_boot(new_line("run_ascend.py"), platform)
    for rank, environ in enumerate(seen):
        log = f"ROOT/home/modelarts/log/modelarts-job-1/ascend/process_log/rank_{rank}"
        wanted = {
            "JOB_ID": "modelarts-job-1", "DEVICE_ID": str(rank), "ASCEND_DEVICE_ID": str(rank), "RANK_ID": str(rank),
            "RANK_SIZE": "2", "RANK_TABLE_FILE": "ROOT/home/rank_table/jobstart_hccl.json",
            "HCCL_CONNECT_TIMEOUT": "1800", "ASCEND_PROCESS_LOG_PATH": log,
        }  # fmt: skip
        assert {name: environ.get(name) for name in wanted} == wanted


def test_conda_run(benches: List[Bench]) -> None:
    _, ours = benches
    prefix = ours.root / "anaconda3" / "envs" / "mine"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    more = {**platform_table(ours), "ANACONDA_DIR": str(ours.root / "anaconda3")}
    seen = ours.ma_boot(new_line("export LD_LIBRARY_PATH", conda="--conda-env mine"), more)
    for environ in seen:
        assert environ["LD_LIBRARY_PATH"].split(":")[0] == "ROOT/anaconda3/envs/mine/lib"
        assert environ["CONDA_DEFAULT_ENV"] == "mine"


def test_torchruns_variables(benches: List[Bench]) -> None:
    """Real torchrun is in test_torch.py: the same training runs in both ways there."""
    _, ours = benches
    seen = ours.ma_boot(new_line("torchrun"), {"MA_NUM_GPUS": "2"})
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    assert [[environ[name] for name in names] for environ in seen] == [
        ["0", "0", "2", "2", "0", "127.0.0.1", "29500"], ["1", "1", "2", "2", "0", "127.0.0.1", "29500"]
    ]  # fmt: skip


def test_msruns_variables(benches: List[Bench]) -> None:
    """Real msrun is in test_mindspore_ways.py: the same training runs in both ways there."""
    _, ours = benches
    seen = ours.ma_boot(new_line("msrun"), {"MA_NUM_GPUS": "2"}, ranks=3)  # and the scheduler
    workers = [environ for environ in seen if environ["MS_ROLE"] == "MS_WORKER"]
    assert [environ["MS_NODE_ID"] for environ in workers] == ["0", "1"]
    assert {environ["MS_WORKER_NUM"] for environ in seen} == {"2"}


def test_a_second_run_starts_in_fresh_directories_and_masks_secrets(benches: List[Bench]) -> None:
    _, ours = benches
    line = "ma_boot --rank-table-file rank_table_2pcs.json --workdir per-rank train.py"
    ours.ma_boot(line)
    (ours.root / "device_0" / "left.ckpt").write_text("of the first run")
    shutil.rmtree(ours.seen_dir)
    ours.seen_dir.mkdir()
    ours.ma_boot(line, more={"OBS_SECRET_ACCESS_KEY": "planted"})
    assert [path.name for path in (ours.root / "device_0").iterdir()] == ["env.log"]
    log = (ours.root / "device_0" / "env.log").read_text()
    assert "OBS_SECRET_ACCESS_KEY=******\n" in log
    assert "planted" not in log
    assert not os.path.exists(ours.root / "device_0" / "train0.log")


def test_every_row_of_the_table_is_tested() -> None:
    text = Path(__file__).read_text()
    named = re.findall(r'new_line\("(.+?)"', text)
    assert sorted(row for row in TABLE if not any(row.startswith(old) for old in named)) == []
