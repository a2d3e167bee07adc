"""`ma_boot --local` in front of the command with which a user trains: the first thing that is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import Ended

TRAIN = """\
import os, sys
import beside
print("trained", beside.NAME, *sys.argv[1:], "in", os.path.basename(os.getcwd()))
"""
LAUNCHER = """\
#!/bin/sh
# A launcher with the arguments of torchrun: --nproc_per_node N [-m] SCRIPT [ARGS]...
shift 2
exec python3 "$@"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that was written without ma_boot."""
    project = tmp_path / "project"
    (project / "pkg").mkdir(parents=True)
    files = {
        "train.py": TRAIN,
        "beside.py": "NAME = 'beside'\n",
        "pkg/__init__.py": "",
        "pkg/train.py": TRAIN.replace("beside", "pkg"),
        "run.sh": 'echo "run $*"\nexec python3 "${0%/*}/train.py" "$@"\n',
        "config.yaml": "lr: 0.1\n",
        "opens.py": "print(open('config.yaml').read())\n",
        "calls.sh": "python3 train.py\n",
    }
    for name, text in files.items():
        (project / name).write_text(text)
    (project / "pkg" / "__init__.py").write_text("NAME = 'pkg'\n")
    for name in ("torchrun", "msrun", "deepspeed"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(LAUNCHER)
        (tmp_path / "bin" / name).chmod(0o755)
    return project


def ma_boot(cwd: Path, *arguments: str, variables: dict[str, str] = {}) -> Ended:  # noqa: B006
    environ = {"PATH": f"{cwd.parent / 'bin'}:/usr/bin:/bin", **variables}
    argv = [sys.executable, "-m", "ma_boot", *arguments]
    done = subprocess.run(
        argv, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return Ended(done.returncode, done.stdout.decode())


def local(cwd: Path, *arguments: str) -> Ended:
    return ma_boot(cwd, "--local", *arguments)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("python3", "train.py", "--lr", "1"), "trained beside --lr 1 in ma-user"),
        (("python3", "-u", "train.py"), "trained beside in ma-user"),
        (("python3", "-m", "pkg.train", "x"), "trained pkg x in ma-user"),
        (("-m", "pkg.train", "x"), "trained pkg x in ma-user"),
        (("bash", "run.sh", "1"), "trained beside 1 in ma-user"),
        (("sh", "-x", "run.sh"), "trained beside in ma-user"),
        (("torchrun", "--nproc_per_node", "2", "train.py", "-v"), "trained beside -v in ma-user"),
        (("torchrun", "--nproc_per_node", "2", "-m", "pkg.train"), "trained pkg in ma-user"),
        (("msrun", "--worker_num", "2", "train.py"), "trained beside in ma-user"),
        (("env", "A=b", "nice", "python3", "train.py"), "trained beside in ma-user"),
    ],
)
def test_the_usual_commands_work(project: Path, command: tuple[str, ...], line: str) -> None:
    ended = local(project, *command)
    assert ended.code == 0, ended.output
    assert line in ended.output


def test_a_launcher_is_started_once_per_node(project: Path) -> None:
    ended = local(project, "--devices-per-node", "2", "torchrun", "--nproc_per_node", "2", "train.py")
    assert ended.code == 0, ended.output
    assert ended.output.count("trained beside in ma-user") == 1
    assert "torchrun starts the ranks of this node: started once" in ended.output
    assert "WARNING" not in ended.output


@pytest.mark.parametrize(("nodes", "is_warned"), [("1", False), ("2", True)])
def test_launcher_of_deepspeed_finds_the_cards_of_one_node(
    project: Path, nodes: str, is_warned: bool
) -> None:
    words = ("--nodes", nodes, "--devices-per-node", "2", "deepspeed", "--num_gpus", "2", "train.py")
    ended = local(project, *words)
    assert ended.code == 0, ended.output
    assert ("WARNING: the job has" in ended.output) == is_warned


def test_a_launcher_that_may_start_too_few_ranks_is_warned_of(project: Path) -> None:
    ended = local(project, "--devices-per-node", "2", "msrun", "train.py")
    assert (
        "WARNING: the job has 2 ranks, but the command does not say how many to start (--worker-num)"
        in ended.output
    )


@pytest.mark.parametrize(
    "command", [("python3", "opens.py"), ("-m", "opens"), ("calls.sh",), ("sh", "calls.sh")]
)
def test_a_file_beside_the_script_gets_exactly_one_advice(project: Path, command: tuple[str, ...]) -> None:
    ended = local(project, *command)
    assert ended.code in (1, 2), ended.output
    name = "train.py" if "calls.sh" in command else "config.yaml"
    last = ended.output.splitlines()[-1]
    assert f"{name} is beside the script in " in last
    assert "add --workdir code" in last
    again = local(project, "--workdir", "code", *command)
    assert again.code == 0, again.output
    assert "lr: 0.1" in again.output or "trained beside in project" in again.output


def test_a_file_that_is_nowhere_gets_no_such_advice(project: Path) -> None:
    (project / "config.yaml").unlink()
    ended = local(project, "python3", "opens.py")
    assert ended.code == 1
    assert "--workdir" not in ended.output


@pytest.mark.parametrize(
    ("options", "place"),
    [((), "home/ma-user"), (("--workdir", "code"), "home/ma-user/modelarts/user-job-dir/project")],
)
def test_relative_paths_of_a_mapping_start_where_the_processes_run(
    project: Path, options: tuple[str, ...], place: str
) -> None:
    mapping = {"input": {"data": "obs://bucket/data/"}, "output": {"./out": "obs://bucket/out/"}}
    (project / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    (project / "obs" / "bucket" / "data").mkdir(parents=True)
    (project / "obs" / "bucket" / "data" / "x").write_text("sample")
    (project / "copies.py").write_text(
        "import os, shutil\nos.mkdir('out')\nshutil.copy('data/x', 'out/y')\nprint('in', os.getcwd())\n"
    )
    words = ("--path-mapping", "mapping.py", "--obs-root", "obs", *options, "--fault", "table-late for=100ms")
    ended = local(project, *words, "python3", "copies.py")
    assert ended.code == 0, ended.output
    assert f"/node-0/{place}\n" in ended.output
    assert (project / "obs" / "bucket" / "out" / "y").read_text() == "sample"
    assert "outputs: all 1 files are in OBS" in ended.output


def test_workdir_code_needs_code(project: Path) -> None:
    ended = local(project, "--workdir", "code", "python3", "-c", "1")
    assert ended.code == 78
    assert "--workdir code: expected a script or module of the job's code in COMMAND" in ended.output


@pytest.mark.parametrize("command", [("python3", "train.py"), ("-m", "pkg.train"), ("bash", "run.sh")])
def test_on_the_platform_the_script_is_looked_for_in_the_jobs_code(
    project: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    jobs = home / "modelarts" / "user-job-dir"
    jobs.mkdir(parents=True)
    os.rename(project, jobs / "project")
    variables = {"MA_HOME": str(home), "MA_VJ_NAME": "ma-job-1", "MA_NUM_GPUS": "1", "PATH": "/usr/bin:/bin"}
    ended = ma_boot(home, "--rendezvous", "none", *command, variables=variables)
    assert ended.code == 0, ended.output
    assert "in home" in ended.output


def test_a_command_without_a_script_says_that_no_code_is_copied(project: Path) -> None:
    ended = local(project, "python3", "-c", "print('inline')")
    assert ended.code == 0, ended.output
    assert "COMMAND names no script that is here, so no code is copied to the nodes" in ended.output
    assert "names no script" not in local(project, "--code-dir", ".", "python3", "-c", "print(1)").output
