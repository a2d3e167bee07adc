"""Setup of a node before its processes: packages, ma-pre-start, custom operators."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.node.boot.environment_phase import pip_command
from tests.functional.boot.wheels import wheel
from tests.functional.node import Node

TRAIN = """
import json, os
try:
    import grown
    from_wheel = grown.VALUE
except ImportError:
    from_wheel = None
print("seen", json.dumps([from_wheel, os.environ.get("FROM_PRE_START"), os.environ.get("SLOG_PRINT_TO_STDOUT")]))
"""


@pytest.fixture
def node(node: Node) -> Node:
    (code := node.home / "code").mkdir()
    (code / "train.py").write_text(TRAIN)
    return node


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap (Debian: bubblewrap)")
def test_packages_go_to_a_directory_of_the_job_without_write_permission(node: Node, tmp_path: Path) -> None:
    """The job's directory comes first in the path; packages of the environment that fit are not installed again."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    (seen,) = venv.glob("lib/python3*/site-packages")
    (seen / "grown.py").write_text("VALUE = 1\n")
    code = node.home / "code"
    (code / "needs.txt").write_text(f"./{wheel(code)}\npip\n")
    node.variables["PIP_NO_INDEX"] = "1"
    closed = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(venv), str(venv)]
    words = ["--python", str(venv / "bin" / "python"), "--requirements", "code/needs.txt", "code/train.py"]
    ended = node.start_by(closed, *words).end()
    assert ended.code == 0, ended.output
    assert "Requirement already satisfied: pip" in ended.output
    assert ended.output.count("seen [7, null, null]") == 2
    assert list(node.home.glob(".ma_boot/packages/lib/python3*/site-packages/grown.py"))


def test_packages_are_installed_once_and_a_wheel_lies_beside_the_file(node: Node, tmp_path: Path) -> None:
    code = node.home / "code"
    (code / "pip-requirements.txt").write_text(f"./{wheel(code)}\n")
    node.variables.update(
        PIP_TARGET=str(tmp_path / "grown"), PYTHONPATH=str(tmp_path / "grown"), PIP_NO_INDEX="1"
    )
    ended = node.boot("--requirements", "code/pip-requirements.txt", "code/train.py")
    assert ended.code == 0, ended.output
    assert ended.output.count("Successfully installed grown-1.0") == 1
    assert ended.output.count("seen [7, null, null]") == 2


def test_packages_that_cannot_be_installed_end_the_job_before_a_process_starts(node: Node) -> None:
    (node.home / "code" / "pip-requirements.txt").write_text("./missing-1.0-py3-none-any.whl\n")
    ended = node.boot("--requirements", "code/pip-requirements.txt", "code/train.py")
    assert ended.code == 78
    assert "pip could not install" in ended.output.splitlines()[-1]
    assert "seen [" not in ended.output
    assert "no such file" in node.boot("--requirements", "none.txt", "code/train.py").output


def test_pip_uses_the_platform_index_unless_the_user_has_one() -> None:
    platform = {"MA_PIP_URL": "http://pip.example/simple/", "MA_PIP_HOST": "pip.example"}
    argv = pip_command("/python", "/r.txt", platform)
    assert argv[-4:] == ["--index-url", "http://pip.example/simple/", "--trusted-host", "pip.example"]
    own = pip_command("/python", "/r.txt", {**platform, "PIP_INDEX_URL": "https://mine.example"})
    assert "--index-url" not in own


@pytest.mark.parametrize("end", ["", "exit", "exit 0", "(exit 5)\nexit 0", "set -o posix"])
@pytest.mark.parametrize("trap", ["", "trap 'rm -f made' EXIT"])
def test_exports_of_ma_pre_start_survive_its_exit_trap(node: Node, end: str, trap: str) -> None:
    script = f"{trap}\ntouch made\nexport FROM_PRE_START=kept\ncd /\ncd - >/dev/null\n{end}\n"
    (node.home / "code" / "ma-pre-start.sh").write_text(script)
    ended = node.boot("code/train.py")
    assert ended.code == 0, ended.output
    assert ended.output.count('seen [null, "kept", null]') == 2
    assert (node.home / "code" / "made").exists() == (not trap)


@pytest.mark.parametrize("end", ["exit 7", "false; exit", "set -e\nfalse", "return 9", "trap 'exit 4' EXIT"])
def test_a_failure_of_ma_pre_start_ends_the_job(node: Node, end: str) -> None:
    (node.home / "code" / "ma-pre-start.sh").write_text(f"export FROM_PRE_START=kept\n{end}\n")
    ended = node.boot("code/train.py")
    assert ended.code == 78, ended.output
    expected = {"exit 7": 7, "return 9": 9, "trap 'exit 4' EXIT": 4}.get(end, 1)
    assert f"ma-pre-start.sh failed: exit code {expected}; its output is above" in ended.output
    assert "seen [" not in ended.output


def test_exports_of_ma_pre_start_reach_each_process(node: Node) -> None:
    script = "pwd\nexport FROM_PRE_START=$(basename $(pwd))\ncd /\nexit 0\n"
    (node.home / "code" / "ma-pre-start.sh").write_text(script)
    ended = node.boot("code/train.py")
    assert ended.code == 0, ended.output
    assert ended.output.count('seen [null, "code", null]') == 2
    assert ended.output.count(f"{node.home}/code\n") == 1


def test_ma_pre_start_in_python_runs_once_with_the_trainings_python(node: Node) -> None:
    (node.home / "code" / "ma-pre-start.py").write_text("import sys; print('pre-start', sys.executable)")
    ended = node.boot("--python", sys.executable, "code/train.py")
    assert ended.output.count(f"pre-start {sys.executable}\n") == 1
    (node.home / "code" / "ma-pre-start.py").write_text("raise SystemExit(3)")
    ended = node.boot("code/train.py")
    assert ended.code == 78
    assert "ma-pre-start.py failed: exit code 3" in ended.output
    assert "seen [" not in ended.output


def test_plan_runs_no_setup(node: Node) -> None:
    (node.home / "code" / "ma-pre-start.sh").write_text("touch ../was-here")
    assert node.boot("--plan", "code/train.py").code == 0
    assert not (node.home / "was-here").exists()


def operator(node: Node, url: str, **more: object) -> None:
    node.variables["MA_ALGORITHM_OPERATOR"] = json.dumps({"obs": {"obs_url": url}, **more})


@pytest.mark.parametrize("url", ["obs://bucket/op/", "obs://bucket/op/custom.run", "/bucket/op/"])
def test_custom_operators_are_installed(node: Node, url: str) -> None:
    package = node.obs / "bucket" / "op" / "custom.run"
    package.parent.mkdir(parents=True)
    package.write_text(f"#!/bin/sh\necho installing in a directory of its own > {node.home}/installed\n")
    operator(node, url, ide_mode=True)
    ended = node.boot("--obs-root", str(node.obs), "code/train.py")
    assert ended.code == 0, ended.output
    assert (node.home / "installed").exists()
    assert ended.output.count('seen [null, null, "1"]') == 2


@pytest.mark.parametrize(
    ("files", "code", "message"),
    [
        ({"readme": ""}, 78, "there is no .run file in obs://bucket/op/"),
        ({"a.run": "#!/bin/sh\nexit 4\n"}, 78, "a.run failed: exit code 4"),
        ({}, 66, "obs://bucket/op/"),
    ],
)
def test_failed_installation_of_operators_ends_the_job(
    node: Node, files: dict[str, str], code: int, message: str
) -> None:
    (node.obs / "bucket" / ("op" if files else "other")).mkdir(parents=True)
    for name, text in files.items():
        (node.obs / "bucket" / "op" / name).write_text(text)
    operator(node, "obs://bucket/op/")
    ended = node.boot("--obs-root", str(node.obs), "code/train.py")
    assert ended.code == code, ended.output
    assert message in ended.output
    assert "seen [" not in ended.output


def test_operators_without_credentials_are_a_configuration_error(node: Node) -> None:
    operator(node, "obs://bucket/op/")
    ended = node.boot("code/train.py")
    assert ended.code == 78, ended.output
    assert "OBS_ACCESS_KEY_ID" in ended.output


def test_training_that_imports_moxing_gets_the_functions_of_path_mapping_once_announced(node: Node) -> None:
    (node.obs / "bucket").mkdir(parents=True)
    (node.obs / "bucket" / "a").write_text("words")
    (node.home / "code" / "train.py").write_text(
        "import moxing as mox\nprint('seen', mox.file.read('obs://bucket/a'))\n"
    )
    ended = node.boot("--obs-root", str(node.obs), "code/train.py")
    assert ended.code == 0, ended.output
    assert ended.output.count("seen words") == 2
    assert ended.output.count("[ma_boot] this Python has no MoXing") == 1
