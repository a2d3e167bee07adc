"""`import moxing` of training code: an installed MoXing, else the functions of `path_mapping.file`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.transfer.interpreters import pythons
from tests.unit.project.imports import ROOT

FOR_TRAINING = ROOT / "ma_boot" / "for_training"
NOTICE = "[ma_boot] this Python has no MoXing:"
REAL = "VERSION = 'real'\n"


def train(
    program: str, cwd: Path, *behind: Path, python: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program as a rank: the modules for training code come before the directories `behind`."""
    path = os.pathsep.join(map(str, (FOR_TRAINING, *behind)))
    return subprocess.run(
        [python, "-B", "-c", program],
        cwd=cwd,
        env={"PYTHONPATH": path, "PATH_MAPPING_OBS_ROOT": str(cwd / "obs"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("python", pythons())
def test_every_form_of_the_import_copies_files(tmp_path: Path, python: str) -> None:
    written(tmp_path / "obs" / "bucket" / "data" / "a", "x")
    forms = {
        "import moxing as mox": "mox.file",
        "import moxing": "moxing.file",
        "import moxing.file": "moxing.file",
        "from moxing import file": "file",
        "from moxing.framework import file": "file",
        "import moxing.framework.file": "moxing.framework.file",
        "import moxing.framework as mox": "mox.file",
        "from moxing.framework.file import copy_parallel": "",
    }
    for number, (statement, module) in enumerate(forms.items()):
        call = f"{module}.copy_parallel" if module else "copy_parallel"
        done = train(f"{statement}; {call}('obs://bucket/data', 'got{number}')", tmp_path, python=python)
        assert done.returncode == 0, f"{statement}: {done.stderr}"
        assert (tmp_path / f"got{number}" / "a").read_text() == "x"


@pytest.mark.parametrize("python", pythons())
def test_installed_moxing_behind_ours_wins(tmp_path: Path, python: str) -> None:
    package = tmp_path / "site" / "moxing"
    written(package / "__init__.py", REAL)
    written(package / "framework" / "__init__.py", "")
    written(package / "framework" / "file.py", REAL)
    program = "from moxing.framework import file; import moxing as mox; print(file.VERSION, mox.VERSION)"
    done = train(program, tmp_path, tmp_path / "site", python=python)
    assert (done.stdout, done.stderr) == ("real real\n", "")


@pytest.mark.parametrize("name", ["moxing.py", "moxing/__init__.py"])
def test_moxing_in_the_code_directory_wins(tmp_path: Path, name: str) -> None:
    written(tmp_path / name, REAL)
    done = train("import moxing; print(moxing.VERSION)", tmp_path)
    assert (done.stdout, done.stderr) == ("real\n", "")


def test_directory_with_code_wins_and_one_with_data_does_not(tmp_path: Path) -> None:
    written(tmp_path / "code" / "moxing" / "framework" / "file.py", REAL)
    program = "from moxing.framework import file; print(getattr(file, 'VERSION', 'ours'))"
    assert train(program, tmp_path, tmp_path / "code").stdout == "real\n"
    written(tmp_path / "data" / "moxing" / "events.log", "")
    assert train(program, tmp_path, tmp_path / "data").stdout == "ours\n"


def test_editable_installation_outside_of_the_path_wins(tmp_path: Path) -> None:
    place = written(tmp_path / "elsewhere" / "moxing.py", REAL)
    written(
        tmp_path / "site" / "sitecustomize.py",
        "import sys, importlib.util as util\n"
        "class Finder:\n"
        "    def find_spec(fullname, path=None, target=None):\n"
        f"        return util.spec_from_file_location(fullname, {str(place)!r}) if fullname == 'moxing' else None\n"
        "sys.meta_path.append(Finder)\n",
    )
    done = train("import moxing; print(moxing.VERSION)", tmp_path, tmp_path / "site")
    assert (done.stdout, done.stderr) == ("real\n", "")


def test_error_of_an_installed_moxing_is_not_hidden(tmp_path: Path) -> None:
    written(tmp_path / "site" / "moxing.py", "import tensorflow_of_moxing")
    done = train("import moxing", tmp_path, tmp_path / "site")
    assert "No module named 'tensorflow_of_moxing'" in done.stderr


def test_another_copy_of_ma_boot_on_the_path_is_no_installed_moxing(tmp_path: Path) -> None:
    copy = tmp_path / "old" / "ma_boot" / "for_training"
    shutil.copytree(FOR_TRAINING, copy)
    done = train("import moxing as mox; print(mox.file.exists('.'))", tmp_path, copy)
    assert done.stdout == "True\n"
    assert done.stderr.count(NOTICE) == 1


def test_notice_comes_once_on_a_node(tmp_path: Path) -> None:
    child = "import subprocess, sys, moxing; subprocess.run([sys.executable, '-c', 'import moxing'])"
    assert train(child, tmp_path, LOCAL_RANK="0").stderr.count(NOTICE) == 1
    assert train(child, tmp_path, LOCAL_RANK="1").stderr == ""
    assert train("import path_mapping", tmp_path).stderr == ""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("moxing.run()", "moxing.run: ma_boot has only moxing.file"),
        ("moxing.framework.util", "moxing.framework.util: ma_boot has only moxing.file"),
        ("moxing.file.cache()", "has no 'cache'; it has Entry, File,"),
    ],
)
def test_functions_that_are_not_there_are_an_error_that_names_those_that_are(
    tmp_path: Path, use: str, expected: str
) -> None:
    done = train(f"import moxing; {use}", tmp_path)
    assert done.returncode == 1
    assert expected in done.stderr
