"""Environments as processes see them: real scripts, sourced by a real bash."""

from __future__ import annotations

import json
import os
import subprocess
import timeit
import venv
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.environment.training_environment import select_environment
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import RANK, Ended, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose home has an anaconda3 with one environment, a real python in it."""
    node = Node(tmp_path, devices=1)
    prefix = node.home / "anaconda3" / "envs" / "train"
    venv.create(prefix)
    (prefix / "conda-meta").mkdir()
    node.complete_table()
    return node


def prefix(node: Node) -> Path:
    return node.home / "anaconda3" / "envs" / "train"


def script(node: Node, name: str, text: str, directory: str = "activate.d") -> None:
    """A script that `conda activate` sources."""
    scripts = prefix(node) / "etc" / "conda" / directory
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / name).write_text(text)


def seen(node: Node, *arguments: str) -> dict[str, str]:
    """The environment of the rank."""
    ended = node.boot(*arguments, RANK, "print-environment")
    assert ended.code == 0, ended.output
    environ: dict[str, Any] = json.loads(node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"])
    return environ


def test_a_named_environment_is_active(node: Node) -> None:
    environ = seen(node, "--conda-env", "train")
    assert environ["CONDA_PREFIX"] == str(prefix(node))
    assert environ["PATH"].split(":")[0] == str(prefix(node) / "bin")
    assert environ["LD_LIBRARY_PATH"].split(":")[0] == str(prefix(node) / "lib")


def test_the_images_two_variables_select_it(node: Node) -> None:
    node.variables.update(ANACONDA_DIR=str(node.home / "anaconda3"), DEFAULT_CONDA_ENV_NAME="train")
    assert seen(node)["CONDA_DEFAULT_ENV"] == "train"


def test_activation_scripts_take_effect_in_order(node: Node) -> None:
    script(node, "a.sh", "export FIRST=\"$CONDA_PREFIX\"\nexport LINES_OF=$'two\\nlines'\n")
    script(node, "b.sh", 'export SECOND="after $FIRST"; unset GONE; echo words on stdout\n')
    node.variables["GONE"] = "x"
    environ = seen(node, "--conda-env", "train")
    assert environ["SECOND"] == f"after {prefix(node)}"
    assert environ["LINES_OF"] == "two\nlines"
    assert "GONE" not in environ
    assert "SHLVL" not in environ


def test_sourced_files_come_after_and_the_environment_stays_first(node: Node) -> None:
    script(node, "a.sh", "export FROM_CONDA=1\n")
    cann = node.root / "set env.sh"
    cann.write_text(
        'export PATH=/cann/bin:$PATH LD_LIBRARY_PATH=/cann/lib:$LD_LIBRARY_PATH\n[ -n "$FROM_CONDA" ]'
    )
    environ = seen(node, "--conda-env", "train", "--source", str(cann))
    assert environ["PATH"].split(":")[:2] == [str(prefix(node) / "bin"), "/cann/bin"]
    assert environ["LD_LIBRARY_PATH"].split(":")[:2] == [str(prefix(node) / "lib"), "/cann/lib"]


def test_an_error_of_a_sourced_file_is_reported(node: Node) -> None:
    file = node.root / "set_env.sh"
    file.write_text("export STILL=here\nreturn 3\n")
    ended = node.boot("--source", str(file), RANK, "print-environment")
    assert "set_env.sh returned 3" in ended.output
    assert '"STILL": "here"' in ended.output


def test_the_users_pythonpath_stays(node: Node) -> None:
    node.variables["PYTHONPATH"] = "/mine:/theirs"
    assert seen(node)["PYTHONPATH"].split(":")[:2] == ["/mine", "/theirs"]


def failed(node: Node, *arguments: str) -> Ended:
    ended = node.boot(*arguments, RANK)
    assert ended.code == 78
    assert "Traceback" not in ended.output
    return ended


def test_configured_libraries_stay_and_activation_scripts_see_them(node: Node) -> None:
    state = {"env_vars": {"LD_LIBRARY_PATH": "/configured"}}
    (prefix(node) / "conda-meta" / "state").write_text(json.dumps(state))
    script(
        node, "a.sh", "export SEEN=$LD_LIBRARY_PATH LD_LIBRARY_PATH=/mine:$LD_LIBRARY_PATH PATH=/my:$PATH\n"
    )
    environ = seen(node, "--conda-env", "train")
    assert environ["SEEN"] == f"{prefix(node)}/lib:/configured"
    assert environ["LD_LIBRARY_PATH"] == f"/mine:{prefix(node)}/lib:/configured"
    assert environ["PATH"].split(":")[:2] == ["/my", f"{prefix(node)}/bin"]


def test_the_bash_that_sources_does_not_load_the_environments_libraries(node: Node) -> None:
    """Those of conda may be too old, or too new, for the bash of the image."""
    script(node, "a.sh", 'export SEEN="$LD_LIBRARY_PATH"\n')
    (prefix(node) / "lib" / "libc.so.6").write_text("no library")
    with SignalInbox() as inbox:
        environ, home = {"PATH": os.environ["PATH"]}, str(node.home)
        training = select_environment(
            None, "train", [], environ, home, inbox, print, cwd="/", job_dir="/nowhere"
        )
    assert training.environ["SEEN"] == f"{prefix(node)}/lib"


def test_an_environment_that_is_active_is_deactivated_first(node: Node) -> None:
    script(node, "a.sh", 'unset GDAL_DATA; export ORDER="${ORDER}d"\n', "deactivate.d")
    script(node, "a.sh", 'export ORDER="${ORDER}a"\n')
    node.variables.update(CONDA_PREFIX=str(prefix(node)), CONDA_SHLVL="1", GDAL_DATA="old", ORDER="")
    environ = seen(node, "--conda-env", "train")
    assert environ["ORDER"] == "da"
    assert "GDAL_DATA" not in environ


def test_the_python_is_that_of_a_sourced_environment(node: Node) -> None:
    venv.create(node.root / "v")
    activate = node.root / "activate"
    activate.write_text(f"export VIRTUAL_ENV={node.root}/v PATH={node.root}/v/bin:$PATH\n")
    node.variables.update(DEFAULT_CONDA_ENV_NAME="train")
    ended = node.boot("--source", str(activate), RANK, "print-environment")
    assert f"{node.root}/v/bin/python by --source" in ended.output
    environ: dict[str, str] = json.loads(node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"])
    assert environ["PATH"].split(":")[0] == f"{node.root}/v/bin"


def shim(node: Node, text: str) -> Path:
    """A shim as pyenv makes it: a shell script that starts another python. It notes each of its starts."""
    file = node.root / "shims" / "python"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\necho started >> {node.root}/starts\n{text}\n")
    file.chmod(0o755)
    return file


def test_a_shim_is_asked_once_for_the_python_that_it_starts(node: Node) -> None:
    python = prefix(node) / "bin" / "python"
    file = shim(node, f'exec {python} "$@"')
    ended = node.boot("--python", str(file), RANK, "print-environment")
    assert (ended.code, (node.root / "starts").read_text()) == (0, "started\n"), ended.output
    assert f"{python}, which {file} by --python starts" in ended.output


@pytest.mark.parametrize(
    ("text", "problem"), [("exit 127", "found '' and exit code 127"), ("echo no", "found 'no'")]
)
def test_a_shim_that_starts_no_python_ends_the_start(node: Node, text: str, problem: str) -> None:
    ended = node.boot("--python", str(shim(node, text)), RANK, "print-environment")
    assert ended.code == 78
    assert f"shims/python: expected the path of a python, {problem}" in ended.output


def test_a_file_that_fails_with_set_e_ends_the_start(node: Node) -> None:
    first, second = node.root / "first.sh", node.root / "second.sh"
    first.write_text("export FIRST=1\n")
    second.write_text("set -e\nfalse\nexport NOT=reached\n")
    output = failed(node, "--source", str(first), "--source", str(second)).output
    assert f"exited the shell with code 1: {second}" in output


def test_a_relative_file_is_found_in_the_code(node: Node) -> None:
    code = node.root / "job" / "code"
    code.mkdir(parents=True)
    (code / "env.sh").write_text("export FOUND=in-code\n")
    node.variables["MA_JOB_DIR"] = str(code.parent)
    assert seen(node, "--source", "env.sh")["FOUND"] == "in-code"
    assert "/no/such.sh" in failed(node, "--source", "/no/such.sh").output
    output = failed(node, "--source", "other.sh").output
    assert f"looked for {node.home}/other.sh" in output
    assert f"looked for {code}/other.sh" in output


@pytest.mark.parametrize("entry", ["link", "directory"])
def test_entries_of_activate_d_that_are_no_files_are_skipped_as_by_conda(node: Node, entry: str) -> None:
    script(node, "b.sh", "export AFTER=1\n")
    odd = prefix(node) / "etc" / "conda" / "activate.d" / "a.sh"
    odd.symlink_to("/no/such") if entry == "link" else odd.mkdir()
    assert seen(node, "--conda-env", "train")["AFTER"] == "1"


def test_functions_and_odd_names_are_kept(node: Node) -> None:
    file = node.root / "set_env.sh"
    file.write_text('export array=(1 2) NEVER\nfrom_file() { echo "b  c"; }\nexport -f from_file\nIFS=E\n')
    node.variables.update({"BASH_FUNC_given%%": "() {  echo a\n}", "a.b": "odd"})
    environ = seen(node, "--source", str(file))
    assert environ["a.b"] == "odd"
    assert not {"array", "NEVER"} & set(environ)
    command = ["bash", "-c", "given; from_file"]
    assert subprocess.run(command, env=environ, capture_output=True, text=True).stdout == "a\nb  c\n"


def test_a_variable_that_is_too_long_is_left_out(node: Node) -> None:
    file = node.root / "set_env.sh"
    file.write_text("printf -v BIG %0200000d 1; export BIG REST=1\n")
    ended = node.boot("--source", str(file), RANK, "print-environment")
    assert ended.code == 0, ended.output
    assert "BIG is not passed on: it has 200004 bytes" in ended.output
    assert '"REST": "1"' in ended.output


def test_many_variables_take_time_in_proportion(tmp_path: Path) -> None:
    file = tmp_path / "many.sh"
    file.write_text("".join(f"export VARIABLE_{i}={i}\n" for i in range(5_000)))
    environ = {"PATH": "/usr/bin:/bin"}

    def bash() -> None:
        argv = ["bash", "-c", f". {file}; command -p env"]
        subprocess.run(argv, env=environ, check=True, stdout=subprocess.DEVNULL)

    def selected() -> None:
        training = select_environment(
            None, None, [str(file)], environ, "/nowhere", inbox, print, cwd="/", job_dir="/nowhere"
        )
        assert training.environ["VARIABLE_4999"] == "4999"

    with SignalInbox() as inbox:
        ours, bashs = (min(timeit.repeat(run, number=1, repeat=3)) for run in (selected, bash))
    assert ours <= 6 * bashs, "each variable costs the more, the more there are"


def test_a_file_that_exits_the_shell_is_named(node: Node) -> None:
    file = node.root / "exits.sh"
    file.write_text("exit 9\n")
    assert f"with code 9: {file}" in failed(node, "--source", str(file)).output
