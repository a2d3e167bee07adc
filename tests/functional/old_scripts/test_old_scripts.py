"""A start script of each kind that the guides describe, and the `ma_boot` line that replaces it.

Both are run, and what the training sees is compared. Every row of the migration table is a test here. The
scripts are our own; with `MABOOT_ORIGINALS=DIR` the published ones in DIR are compared too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ma_boot.platform.modelarts.network import free_port
from ma_boot.platform.rank_table import fake
from tests.functional.old_scripts.start_scripts import (
    EXTENDED,
    OWN_PYTHON,
    START_SCRIPTS,
    Machine,
    given,
)

ROOT = Path(__file__).parents[3]


def migration_table() -> dict[str, str]:
    """The table of docs/migration.md: the start of each row, and the new line."""
    text = (ROOT / "docs" / "migration.md").read_text()
    rows = text.partition("<!-- migration table -->")[2].partition("<!-- end of the migration table -->")[0]
    lines = re.findall(r"^\| `(.+?)`.* \| `(.+)` \|$", rows, re.MULTILINE)
    assert len(lines) == rows.count("\n| `")
    return dict(lines)


TABLE = migration_table()


def new_line(old: str, **replaced: str) -> str:
    """The new line of the row that begins with `old`, with its examples replaced."""
    (line,) = (new for row, new in TABLE.items() if row.startswith(old))
    for name, value in replaced.items():
        example = {"table": "/path/rank_table.json", "start": "--rank-start 0", "conda": "--conda-env NAME"}[
            name
        ]
        assert example in line
        line = line.replace(example, value)
    return line


@pytest.fixture
def old(tmp_path: Path) -> Machine:
    """The machine of a start script."""
    return Machine(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Machine:
    """The machine of the line that replaces it."""
    return Machine(tmp_path / "new")


@pytest.fixture(params=START_SCRIPTS)
def scripts(request: pytest.FixtureRequest) -> Path:
    """The directory of the start scripts."""
    return START_SCRIPTS[request.param]


def assert_all_is_there(script: Sequence[Mapping[str, str]], line: Sequence[Mapping[str, str]]) -> None:
    """Every variable of the script's ranks has the same value in the line's; those may have more."""
    assert len(script) == len(line)
    for original, replacement in zip(script, line):
        wanted = {name: value for name, value in given(original).items() if name not in EXTENDED}
        assert {name: replacement.get(name) for name in wanted} == wanted


def test_run_sh(scripts: Path, old: Machine, new: Machine) -> None:
    original = old.run_script(scripts / "run.sh", "/path/dataset", "2")
    replacement = new.run_line(new_line("run.sh"), OWN_PYTHON)
    assert_all_is_there(original, replacement)
    assert replacement[1]["DATA_PATH"] == "/path/dataset"
    assert replacement[1]["DEVICE_ID"] == replacement[1]["RANK_ID"] == "1"
    assert new.scripts[1] == "ROOT/device_1/resnet50_distributed_training.py"  # as the original: the copy
    assert "RANK_ID=1\n" in (new.root / "device_1" / "env.log").read_text()


@pytest.mark.parametrize("start", ["0", "8"])
def test_run_cluster_sh(scripts: Path, tmp_path: Path, start: str) -> None:
    old, new = (Machine(tmp_path / name, devices=(8, 8)) for name in ("old", "new"))
    arguments = ("/path/dataset", str(old.table), "16", start)
    script = scripts / "run_cluster.sh"
    original = old.run_script(script, *arguments, directory=".", more=old.light_pytest(), ranks=8)
    line = new_line("run_cluster.sh", table=str(new.table), start=f"--rank-start {start}")
    replacement = new.run_line(line, new.light_pytest(), ranks=8)
    assert_all_is_there(original, replacement)
    assert old.cwds == new.cwds  # device_<rank>, for ranks from RANK_START on
    for rank in range(int(start), int(start) + 8):
        log = Path(f"device_{rank}", f"train{rank}.log")
        assert (old.root / log).is_file()
        assert (new.root / log).is_file()


def test_run_distributed_ascend_sh_of_x2mindspore(scripts: Path, old: Machine, new: Machine) -> None:
    original = old.run_script(scripts / "run_distributed_ascend.sh", str(old.table), "2", "0", "4")
    replacement = new.run_line(new_line("run_distributed_ascend.sh", table=str(new.table)))
    assert_all_is_there(original, replacement)
    assert [environ["DEVICE_ID"] for environ in replacement] == ["4", "5"]
    assert old.cwds == new.cwds == ["ROOT/device_0", "ROOT/device_1"]
    assert old.scripts == new.scripts
    for rank in (0, 1):
        log = Path(f"device_{rank}", f"train{rank}.log")
        assert (old.root / log).read_text() == (new.root / log).read_text() == "training --epochs 2\n"


def test_run_distribution_ascend_sh(scripts: Path, old: Machine, new: Machine) -> None:
    original = old.run_script(
        scripts / "run_distribution_ascend.sh", "2", "0", "rank_table_2pcs.json", "config.yaml"
    )
    replacement = new.run_line(new_line("run_distribution_ascend.sh DEVICE_NUM START_ID"))
    assert_all_is_there(original, replacement)
    for rank in (0, 1):
        own = new.root / f"device_{rank}"
        copied = {path.name for path in (old.root / "scripts" / f"train_parallel{rank}").iterdir()}
        assert copied - {"log.txt"} == {path.name for path in own.iterdir()}
        assert (own / "src" / "net.py").is_file()
    assert new.scripts == ["ROOT/device_0/train.py", "ROOT/device_1/train.py"]


@pytest.mark.openmpi
def test_run_distribution_ascend_sh_with_mpirun(scripts: Path, old: Machine, new: Machine) -> None:
    original = old.run_script(scripts / "run_distribution_mpirun.sh", "2", "config.yaml")
    replacement = new.run_line(new_line("run_distribution_ascend.sh DEVICE_NUM CONFIG_PATH"))
    assert_all_is_there(original, replacement)
    for rank, environ in enumerate(replacement):
        assert environ["OMPI_COMM_WORLD_RANK"] == str(rank)
        assert environ["OMPI_COMM_WORLD_SIZE"] == "2"
        assert "RANK_ID" not in environ


@pytest.mark.openmpi
def test_mpirun_in_non_sink_mode(old: Machine, new: Machine) -> None:
    root = "--allow-run-as-root --oversubscribe" if os.geteuid() == 0 else "--oversubscribe"
    original = old.run_line(f"GRAPH_OP_RUN=1 HCCL_WHITELIST_DISABLE=1 mpirun {root} -n 2 python train.py")
    replacement = new.run_line(new_line("GRAPH_OP_RUN=1 HCCL_WHITELIST_DISABLE=1 mpirun"))
    assert_all_is_there(original, replacement)
    assert {environ["GRAPH_OP_RUN"] for environ in replacement} == {"1"}


def test_the_path_manager_of_x2mindspore(new: Machine) -> None:
    (new.root / "obs" / "dataset").mkdir(parents=True)
    (new.root / "obs" / "dataset" / "a").write_text("input")
    (new.root / "obs" / "outputs").mkdir()
    mapping = {"input": {"data": "obs://dataset/"}, "output": {"config.yaml": "obs://outputs/c.yaml"}}
    (new.root / "path_mapping_config.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    more = {"MABOOT_OBS_ROOT": "obs", "RANK_TABLE_FILE": str(new.table)}
    new.run_line(new_line("ModelArtsPathManager"), more)
    assert (new.root / "data" / "a").read_text() == "input"
    assert (new.root / "obs" / "outputs" / "c.yaml").read_text() == "lr: 1\n"


def test_main_py_of_pytorchs_guide(new: Machine) -> None:
    """The guide gives process i the i-th smallest device of `--device_list`."""
    shutil.copy(new.root / "train.py", new.root / "main.py")
    replacement = new.run_line(new_line("main.py --addr"))
    got = {int(environ["LOCAL_RANK"]): int(environ["DEVICE_ID"]) for environ in replacement}
    assert got == {0: 1, 1: 2}
    assert {environ["MASTER_ADDR"] for environ in replacement} == {"127.0.0.1"}  # the guide's default
    assert all(environ["MASTER_PORT"] for environ in replacement)


def platform_table(machine: Machine) -> dict[str, str]:
    """Makes the machine a node of ModelArts for its launcher; returns the platform's variables."""
    config = machine.root / "user-config"
    config.mkdir()
    (config / "jobstart_hccl.json").write_text(json.dumps(fake(1, 2, "ma-job-1-worker-{}".format)))
    return {
        "MA_HOME": str(machine.root / "home"), "MA_MOUNT_PATH": str(machine.root / "home" / "modelarts"),
        "RANK_TABLE_FILE": str(config), "MA_VJ_NAME": "ma-job-1", "MA_NUM_GPUS": "2",
    }  # fmt: skip


def test_modelarts_own_launcher(new: Machine) -> None:
    """The expected values are what davincirun sets for each process; it is not part of this project."""
    platform = platform_table(new)
    seen = new.run_line(new_line("run_ascend.py"), platform)
    for rank, environ in enumerate(seen):
        log = f"ROOT/home/modelarts/log/modelarts-job-1/ascend/process_log/rank_{rank}"
        wanted = {
            "JOB_ID": "modelarts-job-1", "DEVICE_ID": str(rank), "ASCEND_DEVICE_ID": str(rank), "RANK_ID": str(rank),
            "RANK_SIZE": "2", "RANK_TABLE_FILE": "ROOT/home/rank_table/jobstart_hccl.json",
            "HCCL_CONNECT_TIMEOUT": "1800", "ASCEND_PROCESS_LOG_PATH": log,
        }  # fmt: skip
        assert {name: environ.get(name) for name in wanted} == wanted


def test_conda_run(new: Machine) -> None:
    prefix = new.root / "anaconda3" / "envs" / "mine"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    more = {**platform_table(new), "ANACONDA_DIR": str(new.root / "anaconda3")}
    seen = new.run_line(new_line("export LD_LIBRARY_PATH", conda="--conda-env mine"), more)
    for environ in seen:
        assert environ["LD_LIBRARY_PATH"].split(":")[0] == "ROOT/anaconda3/envs/mine/lib"
        assert environ["CONDA_DEFAULT_ENV"] == "mine"


def test_torchruns_variables(new: Machine) -> None:
    """The comparison with a real torchrun is in test_torch.py."""
    seen = new.run_line(new_line("torchrun"), {"MA_NUM_GPUS": "2"})
    names = [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    ]
    assert [[environ[name] for name in names] for environ in seen] == [
        ["0", "0", "2", "2", "0", "127.0.0.1", "29500"], ["1", "1", "2", "2", "0", "127.0.0.1", "29500"]
    ]  # fmt: skip


def test_msruns_variables(new: Machine) -> None:
    """The comparison with a real msrun is in test_mindspore_ways.py."""
    more = {"MA_NUM_GPUS": "2", "MABOOT_RENDEZVOUS_PORT": str(free_port())}  # msrun's own may be taken
    seen = new.run_line(new_line("msrun"), more, ranks=3)  # and the scheduler
    workers = [environ for environ in seen if environ["MS_ROLE"] == "MS_WORKER"]
    assert [environ["MS_NODE_ID"] for environ in workers] == ["0", "1"]
    assert {environ["MS_WORKER_NUM"] for environ in seen} == {"2"}


def test_a_second_run_starts_in_fresh_directories_and_masks_secrets(new: Machine) -> None:
    line = "ma_boot --rank-table-file rank_table_2pcs.json --workdir per-rank train.py"
    new.run_line(line)
    (new.root / "device_0" / "left.ckpt").write_text("of the first run")
    shutil.rmtree(new.seen_dir)
    new.seen_dir.mkdir()
    new.run_line(line, more={"OBS_SECRET_ACCESS_KEY": "planted"})
    assert [path.name for path in (new.root / "device_0").iterdir()] == ["env.log"]
    log = (new.root / "device_0" / "env.log").read_text()
    assert "OBS_SECRET_ACCESS_KEY=******\n" in log
    assert "planted" not in log
    assert not os.path.exists(new.root / "device_0" / "train0.log")


def test_each_row_of_the_migration_table_has_a_test() -> None:
    text = Path(__file__).read_text()
    named = re.findall(r'new_line\("(.+?)"', text)
    assert sorted(row for row in TABLE if not any(row.startswith(old) for old in named)) == []
