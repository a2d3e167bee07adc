"""Mistakes of new users: each ends with one message that has the advice it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.report.hints import hints_for
from tests.functional.node import Ended


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a training that accepts no arguments, and an empty home that must stay empty."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(
        "import argparse\nargparse.ArgumentParser().parse_args()\nprint('ok')\n"
    )
    (tmp_path / "home").mkdir()
    return project


def ma_boot(project: Path, *arguments: str, variables: dict[str, str] = {}) -> Ended:  # noqa: B006 -- not changed
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(project.parent / "home"), **variables}
    argv = [sys.executable, "-m", "ma_boot", *arguments]
    done = subprocess.run(
        argv, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return Ended(done.returncode, done.stdout.decode())


def left(project: Path) -> tuple[str, ...]:
    """Files left in the home and beside the script."""
    return (*os.listdir(project.parent / "home"), *(set(os.listdir(project)) - {"train.py"}))


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        (["train.py"], 78, "to rehearse the job on this machine: ma_boot --local train.py"),
        (["python3", "train.py"], 78, "ma_boot --local python3 train.py"),
        (["--plan", "train.py"], 78, "to rehearse the job on this machine"),
        (["docter"], 64, "docter: no such command of ma_boot, and no such program on PATH; did you mean ma_boot"),
        (["jop", "init"], 64, "jop: no such command of ma_boot, and no such program on PATH; did you mean ma_boot job?"),
        ([], 0, "Boots training jobs on ModelArts."),
        (["job"], 0, "Submits a job to ModelArts as it was rehearsed, and follows it."),
        (["rank-table"], 0, "Shows, checks and generates rank tables, without a job."),
        (["submit", "job.yaml"], 64, "submit: no such command of ma_boot; did you mean ma_boot job submit?"),
        (["local", "train.py"], 64, "local: no such command of ma_boot; did you mean ma_boot --local?"),
        (["validate"], 64, "did you mean ma_boot rank-table validate?"),
        (["plan", "train.py"], 64, "plan: no such command of ma_boot; did you mean ma_boot --plan or ma_boot sync plan?"),
        (["job", "submit"], 64, "Missing argument 'FILE'; ma_boot job init writes job.yaml."),
        (
            ["--local", "--output", "train_url=obs://my-bucket/out/", "train.py"], 78,
            "--input and --output: name a directory that stands for OBS with --obs-root; for OBS itself, ",
        ),
        (["--local", "sync-plan"], 127, None),
        (["train"], 64, "train: no such program on PATH; did you mean train.py?"),
        (["--local", "tarin.py"], 127, "tarin.py: no such file; did you mean train.py?"),
        (["--local", "python3", "trian.py"], 127, "trian.py: no such file; did you mean train.py?"),
        (["--local", "python train.py"], 64, "python train.py: no such program; write the command as words"),
        (["--local", "cd", "src"], 64, "cd is a command of the shell, and ma_boot runs none"),
        (["--local", ""], 64, "COMMAND is empty"),
        (["--local", "--hang-action", "stop", "train.py"], 64, "--hang-action stop: only with --hang-timeout"),
        (["--local", "--metrics", "off", "--metric", "a=b", "train.py"], 64, "--metric, --metrics-port: --metrics off"),
        (["--local", "--tee", "0,7,9", "train.py"], 64, "--tee 7,9: the job has rank 0 only"),
        (["--local", "--nodes", "2", "--tee", "7", "train.py"], 64, "--tee 7: the job has the ranks 0 to 1"),
        (["--local", "--nodes", "2", "--path-mapping", "none.py", "train.py"], 78, "--path-mapping none.py: no such file"),
        (["--local", "--nodes", "2", "--source", "none.sh", "train.py"], 78, "--source none.sh: no such file"),
        (["--local", "--requirements", "none.txt", "train.py"], 78, "--requirements none.txt: no such file"),
    ],
)  # fmt: skip
def test_mistake_is_reported_once_and_leaves_no_files(
    project: Path, arguments: tuple[str, ...], code: int, advice: str | None
) -> None:
    ended = ma_boot(project, *arguments)
    assert ended.code == code, ended.output
    if advice is not None:
        assert ended.output.count(advice) == 1, ended.output
        assert left(project) == ()


@pytest.mark.parametrize("command", ["submit", "manifest --platform volcano"])
def test_a_job_file_that_is_not_named_is_proposed(project: Path, command: str) -> None:
    (project / "job.yaml").write_text("command: train.py\n")
    ended = ma_boot(project, "job", *command.split())
    assert ended.code == 64
    assert f"Missing argument 'FILE'; did you mean ma_boot job {command.split()[0]} job.yaml?" in ended.output


@pytest.mark.parametrize(
    "words", ["--local train.py", "--plan --local train.py", "doctor", "job init train.py"]
)
def test_removed_working_directory_is_reported(project: Path, words: str) -> None:
    gone = project / "gone"
    gone.mkdir()
    script = f'rmdir ../gone && exec "{sys.executable}" -m ma_boot {words}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=gone, env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.count("\n")) == (78, 1), done.stdout
    assert "the working directory cannot be used (No such file or directory)" in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("host1 slots=8\n", "the file is not complete JSON"),
        ('{"hosts": [1, 2]}', "it has no status"),
        ("[]", "the file contains a JSON list, expected an object"),
        ("", "the file is empty"),
    ],
)
def test_rank_table_of_another_format_ends_the_wait(project: Path, text: str, why: str) -> None:
    table = project / "hosts"
    table.write_text(text)
    os.utime(table, (1, 1))
    ended = ma_boot(project, "--rank-table-file", "hosts", "train.py")
    assert ended.code == 65, ended.output
    assert ended.output.count(f"--rank-table-file hosts: not a rank table: {why}") == 2  # phase, and report


def test_invalid_value_names_its_variable(project: Path) -> None:
    ended = ma_boot(project, "train.py", variables={"MABOOT_LOCAL": "1", "MABOOT_NODES": "two"})
    assert ended.code == 64
    assert "Invalid value for MABOOT_NODES: 'two' is not a whole number from 1 to 1024" in ended.output


def test_directory_instead_of_a_script_is_reported(project: Path) -> None:
    (project / "model.py").mkdir()
    ended = ma_boot(project, "--local", "model.py")
    assert ended.code == 127
    assert f"model.py: expected a script, found the directory {project / 'model.py'}" in ended.output


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_program_without_its_executable_bit_is_explained_by_obs(project: Path, mode: int) -> None:
    (project / "prog").write_text("#!/bin/sh\necho hi\n")
    (project / "prog").chmod(mode)
    ended = ma_boot(project, "--local", "./prog")
    assert ended.code == 126, ended.output
    assert (
        "not executable (OBS does not preserve the executable bit): put its interpreter before it"
        in ended.output
    )


def test_windows_line_ends_are_explained(project: Path) -> None:
    (project / "set_env.sh").write_bytes(b"export A=1\r\n")
    ended = ma_boot(project, "--local", "--source", "set_env.sh", "train.py")
    assert ended.code == 78
    assert "set_env.sh has Windows line ends (CRLF)" in ended.output
    (project / "run.sh").write_bytes(b"set -e\r\n\r\ntrue\r\n")
    ended = ma_boot(project, "--local", "run.sh")
    assert "the script has Windows line ends (CRLF)" in ended.output


@pytest.mark.parametrize("words", ["--version", "rank-table fake", "--local train.py"])
def test_closed_standard_output_is_tolerated(project: Path, words: str) -> None:
    script = f'exec "{sys.executable}" -m ma_boot {words} <&- >&-'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=project,
        env={"PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    for log in project.glob("ma_boot-rehearsal/*/node-0/home/ma-user/modelarts/log/*.*"):
        assert b"[ma_boot]" not in log.read_bytes(), log


def test_invalid_mapping_is_reported_once(project: Path) -> None:
    (project / "map.json").write_text('{"inputs": {}}')
    ended = ma_boot(project, "--local", "--nodes", "2", "--path-mapping", "map.json", "train.py")
    assert ended.code == 78
    assert ended.output.count("inputs") == 1, ended.output


@pytest.mark.parametrize(
    "arguments", [["-h"], ["help"], ["help", "faults"], ["help", "sync"], ["sync", "-h"]]
)
def test_help_answers_to_its_usual_names(project: Path, arguments: tuple[str, ...]) -> None:
    ended = ma_boot(project, *arguments)
    assert ended.code == 0
    assert ("--fault FAULT" if "faults" in arguments else "Usage: ma_boot") in ended.output
    assert ended.output.splitlines()[0].startswith("Usage: ma_boot sync") == ("sync" in arguments)


def test_program_of_the_selected_environment_is_accepted(project: Path) -> None:
    bin_dir = project.parent / "env" / "bin"
    bin_dir.mkdir(parents=True)
    for name in ("python", "repor"):
        (bin_dir / name).write_text("#!/bin/sh\necho reporting\n")
        (bin_dir / name).chmod(0o755)
    ended = ma_boot(project, "--local", "--python", str(bin_dir / "python"), "repor")
    assert ended.code == 0, ended.output


def test_option_after_the_script_is_noted(project: Path) -> None:
    ended = ma_boot(project, "--local", "train.py", "--nodes", "2")
    assert ended.code == 2
    assert ended.output.count("--nodes comes after train.py, and so is passed to the training") == 1
    assert "unrecognized arguments: --nodes: options of ma_boot go before COMMAND" in ended.output
    assert "parse_known_args" not in ended.output


def test_unrecognized_arguments_of_the_training_are_explained(project: Path) -> None:
    ended = ma_boot(project, "--local", "--append-args", "--lr=0.1", "train.py")
    assert ended.code == 2
    assert "let the script use `parse_known_args()`" in ended.output


def test_misspelt_variable_is_noted(project: Path) -> None:
    variables = {"MABOOT_STOP_TIMOUT": "3", "MABOOT_LOCAL": "1", "MABOOT_NNODES": "2", "MABOOT_X": "1"}
    ended = ma_boot(project, "train.py", variables=variables)
    assert ended.code == 0, ended.output
    assert ended.output.count("MABOOT_STOP_TIMOUT: no option of ma_boot has this variable") == 1
    assert "did you mean MABOOT_STOP_TIMEOUT?" in ended.output
    assert "MABOOT_X: no option of ma_boot has this variable, it is ignored\n" in ended.output
    assert "MABOOT_NNODES" not in ended.output


def test_missing_obs_root_is_reported_with_its_full_path(project: Path) -> None:
    (project / "map.json").write_text('{"input": {"data": "obs://bucket/data/"}}')
    ended = ma_boot(project, "--local", "--obs-root", "obs", "--path-mapping", "map.json", "train.py")
    assert ended.code == 66, ended.output
    assert f"--obs-root {project}/obs: no such directory, so it is made, and OBS is empty" in ended.output
    for arguments in (
        ["--local", "--obs-root", "obs", "--input", "data=obs://bucket/data/", "train.py"],
        ["sync", "download", "--obs-root", "obs", "map.json"],
        ["sync", "plan", "--obs-root", "obs", "map.json"],
    ):
        ended = ma_boot(project, *arguments)
        assert ended.code == 66, ended.output
        assert f"obs://bucket/data/ (looked for {project}/obs/bucket/data" in ended.output


def test_missing_mpirun_is_reported_before_the_rank_table(project: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python3", "bash", "env"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    ended = ma_boot(project, "--local", "--rendezvous", "mpi", "train.py", variables={"PATH": str(programs)})
    assert ended.code == 127
    assert "mpirun: no such program on the selected PATH" in ended.output
    assert "install Open MPI (Debian's openmpi-bin)" in ended.output
    assert "rank table: " not in ended.output


def test_missing_variable_of_pytorch_has_a_hint() -> None:
    assert "--rendezvous torch" in hints_for("KeyError: 'WORLD_SIZE'")[0]


def test_reason_is_printed_when_it_happens_and_at_the_end(project: Path) -> None:
    (project / "train.py").write_text("raise SystemExit(3)")
    ended = ma_boot(project, "--local", "train.py")
    assert ended.code == 3
    assert (
        ended.output.count("rank 0 ended with exit code 3") == 3
    )  # when it happens, of the node, of the job
