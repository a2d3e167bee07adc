"""Completion by a real bash in a terminal, and the offers to the other shells."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.faults import KINDS

BIN = str(Path(sys.executable).parent)
PATH = f"{BIN}:/usr/bin:/bin"
# Maximum wait for one answer, on a machine that is busy with other tests.
SECONDS = 60.0


def offered(cwd: Path, *words: str) -> list[str]:
    """Returns the offers to zsh for the last of these words, as `type value`; the words need no quoting."""
    environ = {"PATH": PATH, "_MA_BOOT_COMPLETE": "zsh_complete", "COMP_WORDS": " ".join(["ma_boot", *words])}
    environ["COMP_CWORD"] = str(len(words))
    done = subprocess.run(
        [f"{BIN}/ma_boot"], cwd=cwd, env=environ, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    return [f"{kind} {value}" for kind, value in zip(lines[::3], lines[1::3])]


class Bash:
    """A bash with its own line editor, in a terminal."""

    def __init__(self, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        environ = {"PATH": PATH, "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null", "HOME": str(cwd)}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=cwd,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, keys: str, until: str) -> str:
        """Types these keys and returns what the terminal shows, once it matches."""
        os.write(self._ours, keys.encode())
        shown = ""
        end = time.monotonic() + SECONDS
        while not re.search(until, shown):
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {until!r} in {shown!r}"
            shown += os.read(self._ours, 1 << 16).decode()
        return shown

    def close(self) -> None:
        """Kills the shell."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of a job."""
    directory = tmp_path_factory.mktemp("project")
    for name in ("train.py", "path_mapping_config.py", "jobstart_hccl.json"):
        (directory / name).touch()
    (directory / "obs-root").mkdir()
    (directory / "obs-root.txt").touch()
    return directory


@pytest.fixture(scope="module")
def bash(project: Path) -> Iterator[Bash]:
    """A bash with the completion that the install page names."""
    shell = Bash(project)
    try:
        shell.type('eval "$(ma_boot completion bash)"; echo set"" up\n', "set up")
        yield shell
    finally:
        shell.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ma_boot --pa", "--path-mapping "),
        ("ma_boot ru", "run "),
        ("ma_boot --local --nodes 2 tr", "train.py "),
        ("ma_boot train.py --data jo", "jobstart_hccl.json "),
        ("ma_boot --obs-root ob", "obs-root/"),
        ("ma_boot --rendezvous m", r"ma_boot --rendezvous m.*\n?mindspore +mpi"),
        ("ma_boot --local --fault table-lac", "table-lacks "),
        ("ma_boot rank-table show jo", "jobstart_hccl.json "),
    ],
)
def test_bash_completes(bash: Bash, typed: str, completed: str) -> None:
    several = completed.startswith("ma_boot")
    last = typed.split()[-1]
    expected = completed if several else re.escape(last) + ".*?" + re.escape(completed[len(last) :])
    bash.type(f"{typed}\t\t" if several else f"{typed}\t", expected)
    bash.type('\x15echo next"" one\n', "next one")  # C-u: the line is not run


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--conda"], ["plain --conda-env"]),
        (["run", "--local", "--plan"], ["plain --plan"]),
        (["run", "tr"], ["file tr"]),
        (["r"], ["file r", "plain rank-table", "plain rehearsal", "plain report", "plain run"]),
        (["--rendezvous", "m"], ["plain mindspore", "plain mpi"]),
        (["--python", "x"], ["file x"]),
        (["--code-dir", "x"], ["dir x"]),
        (["train.py", "--pa"], ["file --pa"]),
        (["-m", "package.train", "--plan", "--pa"], ["file --pa"]),
        (["--help", "ra"], ["plain ranks"]),
        (["run", "--help", "fa"], ["plain faults"]),
        (["--fault", "table"], ["plain table-late", "plain table-lacks"]),
        (["rank-table", "diff", "a.json", "b"], ["file b"]),
        (["rank-table", "fake", "--templ"], ["plain --template"]),
        (["rank-table", "sh"], ["plain show"]),
        (["sync", "plan", "pa"], ["file pa"]),
        (["sync", "plan", "--obs-root", "ob"], ["dir ob"]),
        (["image", "build", "x"], ["dir x"]),
        (["doctor", "--python", "x"], ["file x"]),
        (["report", "x"], ["file x"]),
    ],
)
def test_other_shells_complete_the_same_words(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    assert offered(tmp_path, *words) == expected


def test_every_fault_completes(tmp_path: Path) -> None:
    assert offered(tmp_path, "--fault", "''") == [f"plain {kind}" for kind in KINDS]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(tmp_path: Path, shell: str) -> None:
    command = [f"{BIN}/ma_boot", "completion", shell]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PATH": PATH}, capture_output=True, text=True, check=True
    )
    assert f"_MA_BOOT_COMPLETE={shell}_complete" in done.stdout
