"""`load_config` in real programs: the file's types, the command line, every mistake at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.training import load_config
from ma_boot.training.configuration import convert

ZOO = """\
# as the model zoo's default_config.yaml
enable_modelarts: False
data_url: ""
device_target: "Ascend"
epochs: 90
lr: 0.1
warm: null
steps: [30, 60]
names: []
optimizer:
  momentum: 0.9
  nesterov: true
secret_access_key: planted
---
epochs: "how many times, 100% of the data each"
---
device_target: ["Ascend", "GPU", "CPU"]
"""
PROGRAM = """
from ma_boot.training import load_config
config = load_config()
print(config)
print([config.epochs, config.lr, config.steps, config.optimizer.momentum, config.enable_modelarts, config.warm])
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "train.py").write_text(PROGRAM)
    argv = [sys.executable, str(directory / "train.py"), *arguments]
    return subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "default_config.yaml").write_text(ZOO)
    return tmp_path


def test_the_file_beside_the_script_gives_the_settings(project: Path) -> None:
    done = run(project)
    assert done.stdout.splitlines()[-1] == "[90, 0.1, [30, 60], 0.9, False, None]", done.stderr
    assert "optimizer.momentum: 0.9" in done.stdout


def test_the_command_line_is_typed_by_the_file(project: Path) -> None:
    done = run(
        project, "--epochs=2", "--lr", "1e-3", "--steps=1,2,3", "--optimizer.momentum=1", "--enable_modelarts", "--warm=5"
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[2, 0.001, [1, 2, 3], 1.0, True, 5]", done.stderr


def test_every_mistake_is_named_at_once(project: Path) -> None:
    done = run(
        project, "--epochs=many", "--nothing=1", "--other", "3", "--device_target=TPU", "--optimizer.nesterov=maybe", "--epoch=3"
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for problem in (
        "--nothing=1: no such setting in",
        "--other: no such setting in",
        "--epoch=3: no such setting in",  # no guessing that it means --epochs
        "--epochs: found 'many', expected an integer",
        "--optimizer.nesterov: found 'maybe', expected true or false",
        "--device_target: found 'TPU', expected one of ['Ascend', 'GPU', 'CPU']",
    ):
        assert problem in done.stderr
    assert "\n  3: no such" not in done.stderr


def test_another_file_is_named_on_the_command_line(project: Path) -> None:
    other = project / "other.json"
    settings = {"epochs": 7, "lr": 1, "steps": [], "optimizer": {"momentum": 0}}
    other.write_text(json.dumps({**settings, "enable_modelarts": True, "warm": 1}))
    done = run(project, f"--config_path={other}", "--steps=4")
    assert done.stdout.splitlines()[-1] == "[7, 1, [4], 0, True, 1]", done.stderr
    assert "no such file (in /)" in run(project, "--config_path=no.yaml").stderr


def test_its_help_is_the_second_document(project: Path) -> None:
    assert "how many times, 100% of the data each (90)" in run(project, "--help").stdout


def test_printing_it_shows_no_secret(project: Path) -> None:
    done = run(project)
    assert "secret_access_key: ******" in done.stdout
    assert "planted" not in done.stdout


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", "a: b: c", "- 1\n- 2", "{}\n---\n{}\n---\n{}\n---\n{}", "a: !!python/object:os.system x"],
)
def test_a_file_that_holds_no_settings(project: Path, text: str) -> None:
    (project / "default_config.yaml").write_text(text)
    done = run(project)
    assert done.returncode == 2
    assert str(project / "default_config.yaml") in done.stderr
    assert "Traceback" not in done.stderr


@given(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.lists(st.integers(), min_size=1))
)
def test_a_value_written_out_comes_back(value: object) -> None:
    assert convert(str(value), value) == value


def test_in_a_program_too(project: Path) -> None:
    config = load_config(str(project / "default_config.yaml"), ["--epochs", "3"])
    assert (config.epochs, config.device_target) == (3, "Ascend")
