"""Which Python the example's environment gets: the one that was asked for, or another one that MindSpore runs on."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "examples" / "mindspore_cpu" / "make_env.py"
MAKE_ENV: Any = SimpleNamespace(**runpy.run_path(str(PROGRAM)))
REAL = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))


def interpreter(file: Path, version: str, kind: str = "CPython", lacks: str = "") -> Path:
    """A program that answers as a Python of this version would."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\nprintf '%s\\n' '{version} {kind} True {lacks}' '{file}'\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("answer", "version", "refused"),
    [
        ("3.9.18 CPython True \n/x\n", (3, 9, 18), ""),
        ("3.12.1 CPython True \n/x\n", (3, 12, 1), ""),
        ("3.8.18 CPython True \n/x\n", (3, 8, 18), "MindSpore has no wheels for it"),
        ("3.13.0 CPython True \n/x\n", (3, 13, 0), "MindSpore has no wheels for it"),
        ("3.11.2 PyPy True \n/x\n", (3, 11, 2), "MindSpore has wheels for CPython of 64 bits only"),
        ("3.11.2 CPython False \n/x\n", (3, 11, 2), "MindSpore has wheels for CPython of 64 bits only"),
        ("3.11.2 CPython True ensurepip\n/x\n", (3, 11, 2), "it lacks ensurepip: on Debian install python3.11-venv"),
    ],
)  # fmt: skip
def test_usable_interpreters_are_accepted(answer: str, version: tuple[int, ...], refused: str) -> None:
    assert MAKE_ENV.judged("/y", answer) == MAKE_ENV.Interpreter("/x", version, refused)


@pytest.mark.parametrize("answer", ["", "\n", "Python 3.11", "3.11.2 CPython True ", "x y z w\n/x\n"])
def test_other_programs_are_not_interpreters(answer: str) -> None:
    assert MAKE_ENV.judged("/y", answer) is None


OLD = MAKE_ENV.Interpreter("/a", (3, 13, 0), "why")
GOOD, OTHER = MAKE_ENV.Interpreter("/b", (3, 12, 1)), MAKE_ENV.Interpreter("/c", (3, 9, 2))


def test_requested_interpreter_comes_first() -> None:
    assert MAKE_ENV.chosen([OTHER, GOOD]) == OTHER
    assert MAKE_ENV.choice_text(OTHER, OTHER) == "MindSpore gets Python 3.9.2 (/c)"
    assert MAKE_ENV.chosen([OLD, GOOD, OTHER]) == GOOD
    assert MAKE_ENV.choice_text(OLD, GOOD) == "MindSpore gets Python 3.12.1 (/b), not Python 3.13.0 (/a): why"


def test_error_names_all_candidates_and_a_remedy() -> None:
    assert MAKE_ENV.chosen([OLD]) is None
    text = MAKE_ENV.refusal([OLD])
    assert "expected a Python from 3.9 to 3.12 for MindSpore" in text
    assert "Python 3.13.0 (/a): why" in text
    assert "`uv python install 3.12`" in text


def probed(asked: Path, home: Path, environ: dict[str, str]) -> list[Any]:
    silent = MAKE_ENV.Interpreter(str(asked), (3, 13, 0), "it did not answer")
    interpreters: list[Any] = MAKE_ENV.probed(silent, MAKE_ENV.candidates(environ, str(home)))
    return interpreters


def paths(asked: Path, home: Path, environ: dict[str, str]) -> list[str]:
    return [interpreter.path for interpreter in probed(asked, home, environ)]


def test_interpreter_that_hangs_is_named(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3", "3.10.13")
    asked, taken = probed(tmp_path / "gone", tmp_path, {"PATH": str(tmp_path / "bin")})
    assert MAKE_ENV.choice_text(asked, taken).endswith(
        f", not Python 3.13.0 ({tmp_path}/gone): it did not answer"
    )


@pytest.mark.parametrize(
    "place",
    [
        "bin/python3.10",
        "bin/python",
        "home/.pyenv/versions/3.10.13/bin/python",
        "pyenv/versions/3.10.13/bin/python",
        "home/miniforge3/bin/python",
        "home/anaconda3/envs/training/bin/python",
        "conda/envs/training/bin/python",
        "listed/bin/python",
        "uv/cpython-3.10/bin/python3.10",
    ],
)
def test_interpreters_are_found_in_other_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home, tools = tmp_path / "home", tmp_path / "bin"
    asked = interpreter(tmp_path / "asked", "3.13.0")
    interpreter(tmp_path / place, "3.10.13")
    shim = interpreter(tools / "python3.12", "")  # as that of pyenv, for a version that is not active
    shim.write_text("#!/bin/sh\nexit 127\n")
    uv = interpreter(tools / "uv", "")
    uv.write_text(f"#!/bin/sh\necho {tmp_path}/uv/cpython-3.10/bin/python3.10\n")
    (home / ".conda").mkdir(parents=True)
    (home / ".conda" / "environments.txt").write_text(f"{tmp_path}/gone\n{tmp_path}/listed\n")
    (tmp_path / "conda" / "bin").mkdir(parents=True, exist_ok=True)
    environ = {"PATH": str(tools), "CONDA_EXE": f"{tmp_path}/conda/bin/conda"}
    if place.startswith("pyenv"):
        environ["PYENV_ROOT"] = str(tmp_path / "pyenv")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert paths(asked, home, environ) == [str(asked), str(tmp_path / place)]


def test_newest_interpreter_comes_first_and_ends_the_search(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    asked = interpreter(tmp_path / "asked", "3.8.1")
    for minor in (9, 11, 13):
        interpreter(tools / f"python3.{minor}", f"3.{minor}.1")
    assert paths(asked, tmp_path, {"PATH": str(tools)}) == [str(asked), str(tools / "python3.11")]


@pytest.mark.parametrize("python", REAL or [Path(sys.executable)], ids=str)
def test_with_real_interpreters(python: Path) -> None:
    environ = {"HOME": str(Path.home()), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(python), str(PROGRAM)],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    version = done.stdout.split(" ")[3]
    assert done.returncode == 0, done.stdout
    assert (3, 9) <= tuple(map(int, version.split(".")))[:2] <= (3, 12)
    own = python.parts[-3]
    supported = own.startswith(("3.9.", "3.10.", "3.11.", "3.12."))
    expected = f"MindSpore gets Python {own} (" if supported else f", not Python {own} ("
    if python in REAL:
        assert expected in done.stdout
    assert done.stdout.count("\n") == 1
