"""What the first word of the training command decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.errors import CommandNotFound, NotExecutable, UsageError
from ma_boot.node.environment.command import find_command
from ma_boot.node.environment.command_words import read_command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a script, a program, and two code directories."""
    for name, mode in {
        "train.py": 0o644,
        "run.sh": 0o644,
        "tool": 0o755,
        "no-x": 0o644,
        "jobs/a/only.py": 0o644,
        "jobs/a/both.py": 0o644,
        "jobs/b/both.py": 0o644,
        "bin/bash": 0o755,
        "bin/torchrun": 0o755,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=mode)
    return tmp_path


def argv(home: Path, *command: str) -> tuple[str, ...]:
    places = (str(home / "bin"), str(home), str(home / "jobs"))
    training = find_command(read_command(command), "/env/bin/python", *places)
    return tuple(word.replace(str(home), "~") for word in training.words)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("train.py", "--lr", "1"), ("/env/bin/python", "~/train.py", "--lr", "1")),
        (("-m", "pkg.train", "-v"), ("/env/bin/python", "-m", "pkg.train", "-v")),
        (("run.sh", "-x"), ("~/bin/bash", "~/run.sh", "-x")),
        (("torchrun", "train.py"), ("~/bin/torchrun", "~/train.py")),
        (("./tool", ""), ("~/tool", "")),
        (("python", "train.py"), ("/env/bin/python", "~/train.py")),
        (("bash", "-x", "run.sh", "run.sh"), ("~/bin/bash", "-x", "~/run.sh", "run.sh")),
        (("only.py",), ("/env/bin/python", "~/jobs/a/only.py")),
        (("torchrun", "$MA_JOB_DIR/a/only.py"), ("~/bin/torchrun", "$MA_JOB_DIR/a/only.py")),
    ],
)
def test_the_program_of_a_command_is_found(
    home: Path, command: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert argv(home, *command) == expected


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (("missing.py",), CommandNotFound, "looked for"),
        (("/abs/only.py",), CommandNotFound, "no such file"),
        (("both.py",), CommandNotFound, "several files"),
        (("nothing",), CommandNotFound, "no such program on the selected PATH"),
        (("./nothing",), CommandNotFound, "no such file"),
        (("./no-x",), NotExecutable, "put its interpreter before it"),
        (("--lcal",), UsageError, "no such option: --lcal"),
        (("-m",), UsageError, "the name of a module"),
    ],
)
def test_a_command_that_cannot_run_is_an_error(
    home: Path, command: tuple[str, ...], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        argv(home, *command)


def test_the_error_of_a_missing_script_lists_the_searched_places(home: Path) -> None:
    with pytest.raises(CommandNotFound) as raised:
        argv(home, "missing.py")
    for place in ("missing.py", "jobs/a/missing.py", "jobs/b/missing.py"):
        assert f"looked for {home}/{place}" in str(raised.value)
