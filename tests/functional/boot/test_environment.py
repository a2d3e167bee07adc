"""Environments as processes see them: real scripts, sourced by a real bash."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from typing import Any, Dict

import pytest

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


def script(node: Node, name: str, text: str) -> None:
    """A script that `conda activate` sources."""
    scripts = prefix(node) / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / name).write_text(text)


def seen(node: Node, *arguments: str) -> Dict[str, str]:
    """The environment of the rank."""
    ended = node.boot(*arguments, RANK, "print-environment")
    assert ended.code == 0, ended.output
    environ: Dict[str, Any] = json.loads(node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"])
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


def test_a_file_that_returns_an_error_is_named_and_goes_on(node: Node) -> None:
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


def test_an_environment_that_does_not_exist_is_told_what_does(node: Node) -> None:
    assert f"train in {node.home}/anaconda3" in failed(node, "--conda-env", "typo").output


def test_a_file_to_source_that_does_not_exist_is_named(node: Node) -> None:
    assert "/no/such.sh" in failed(node, "--source", "/no/such.sh").output


def test_a_file_that_exits_the_shell_is_named(node: Node) -> None:
    file = node.root / "exits.sh"
    file.write_text("exit 9\n")
    assert f"with code 9: {file}" in failed(node, "--source", str(file)).output
