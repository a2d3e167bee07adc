"""Training code says that a checkpoint is complete, and is never disturbed by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.checkpoints.calls import read_calls
from ma_boot.node.checkpoints.layouts.layout import EPOCH
from tests.unit.training.programs import train


def python37() -> str | None:
    """An interpreter of Python 3.7, on the PATH or installed by pyenv."""
    candidates = [shutil.which("python3.7"), *map(str, Path.home().glob(".pyenv/versions/3.7.*/bin/python"))]
    for python in filter(None, candidates):
        done = subprocess.run(
            [python, "-c", ""], capture_output=True, check=False
        )  # pyenv's shims may refuse
        if done.returncode == 0:
            return python
    return None


def note(
    program: str, spool: Path, python: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Runs training code that calls `checkpoint`."""
    imports = "from ma_boot.training import checkpoint\n"
    return train(imports + program, python, MABOOT_CHECKPOINT_SPOOL=str(spool), **environ)


def steps_in(spool: Path, *ranks: int) -> list[int]:
    return sorted(noted_steps([path.read_text() for path in sorted(spool.iterdir())], ranks))


def test_calls_of_each_rank_reach_its_node(tmp_path: Path) -> None:
    ranks: dict[str, str] = {"RANK": "0", "RANK_ID": "1", "MS_NODE_ID": "2", "OMPI_COMM_WORLD_RANK": "3"}
    for name, rank in ranks.items():
        done = note("checkpoint(100)", tmp_path, **{name: rank})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert steps_in(tmp_path, 0, 1, 2, 3) == ([100] if rank == "3" else [])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_one_process_may_call_for_its_node(tmp_path: Path) -> None:
    note("checkpoint(20, epoch=3, node=True)", tmp_path)
    assert steps_in(tmp_path, 0, 1) == [3 * EPOCH + 20]


def test_it_runs_on_python_37(tmp_path: Path) -> None:
    python = python37()
    if python is None:
        pytest.skip("no Python 3.7 is installed")
    done = note("checkpoint(1); checkpoint(2)", tmp_path, python, RANK="0")
    assert (done.stderr, steps_in(tmp_path, 0)) == ("", [1, 2])


def test_call_does_nothing_without_a_spool(tmp_path: Path) -> None:
    done = train("from ma_boot.training import checkpoint\ncheckpoint(100)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.invariant("`checkpoint()` never disturbs training code")
@pytest.mark.parametrize(
    "arguments", ["'no step'", "None", "[1]", "float('nan')", "object()", "100, epoch='x'"]
)
def test_invalid_step_is_printed_once_and_never_raises(tmp_path: Path, arguments: str) -> None:
    done = note(f"for _ in range(3): checkpoint({arguments})\nprint('trained')", tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ma_boot.training: a checkpoint was not noted: ")
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_written_never_raises(tmp_path: Path) -> None:
    done = note("checkpoint(1); checkpoint(2); print('trained')", tmp_path / "missing")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "No such file or directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_stderr_never_raises(tmp_path: Path) -> None:
    program = (
        "import os; os.close(2); sys.stderr.close(); sys.stderr = None\ncheckpoint('x'); print('trained')"
    )
    assert note(program, tmp_path).stdout == "trained\n"


def test_call_is_on_the_disk_before_it_returns(tmp_path: Path) -> None:
    """A process that dies right after it has spoken was heard; its threads do not mix their lines."""
    program = """
import os, threading
def speak(first):
    for step in range(first, first + 50): checkpoint(step)
threads = [threading.Thread(target=speak, args=(first,)) for first in (100, 200, 300)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
os.fsync = lambda descriptor, real=os.fsync: (real(descriptor), os.kill(os.getpid(), 9))
checkpoint(999)
"""
    assert note(program, tmp_path, RANK="0").returncode == -9
    assert steps_in(tmp_path, 0) == [*range(100, 150), *range(200, 250), *range(300, 350), 999]


def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path) -> None:
    note("import os\npid = os.fork()\ncheckpoint(1)\npid and os.waitpid(pid, 0)", tmp_path)
    assert len(os.listdir(tmp_path)) == 2


def noted_steps(texts: Sequence[str], ranks: Sequence[int], root: str = "/") -> set[int]:
    notes = read_calls(texts, ranks, root)
    return set(notes.steps) if notes is not None else set()


LINE = '{"step": %d, "epoch": null, "rank": %s, "node": false}\n'


def test_step_has_one_version_for_each_call_by_all_ranks() -> None:
    first, second = LINE % (1, 0) + LINE % (2, 0), LINE % (1, 1)
    assert noted_steps([first, second], [0, 1, 2, 3]) == set()
    assert noted_steps([first, second], [0, 1]) == {1}
    silent = read_calls([first, second], [0, 1])
    assert silent is not None
    assert silent.silent == {2: "rank 1 has not called checkpoint for it"}
    again = read_calls([first + LINE % (1, 0), second + LINE % (1, 1)], [0, 1])
    assert again is not None
    assert again.steps == {1: 2}
    assert noted_steps([LINE % (1, "null") + LINE % (2, "null")], [0, 1]) == set(), "of no rank"
    assert noted_steps([LINE % (1, "null")], [7]) == {1}, "the only one"
    assert read_calls(["", "{}"], [0]) is None


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "3", '{"step": "x"}', '{"step": -1}', '{"step": 1e400}', '{"step": 9999999999999999999}', '{"ste'],
)  # fmt: skip
def test_invalid_lines_are_skipped(line: str) -> None:
    assert noted_steps([f"{line}\n{LINE % (5, 0)}{line}"], [0]) == {5}


@given(st.lists(st.text()))
def test_no_text_breaks_the_reader(texts: list[str]) -> None:
    assert isinstance(noted_steps(texts, [0]), set)


def test_call_for_a_directory_reaches_its_output_only(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    program = (
        f"checkpoint(1, node=True); checkpoint(2, node=True, directory={str(tmp_path / 'a' / 'below')!r})"
    )
    assert note(program, spool).stderr == ""
    texts = [path.read_text() for path in spool.iterdir()]
    steps = {
        name: noted_steps(texts, (0,), str(tmp_path / name)) for name in ("a", "ab", "a/below/deeper", "b")
    }
    assert steps == {"a": {1, 2}, "ab": {1}, "a/below/deeper": {1}, "b": {1}}


def test_restored_step_is_that_of_the_output(tmp_path: Path) -> None:
    outputs = [
        {"directory": str(tmp_path / "a"), "step": None, "source": None},
        {"directory": str(tmp_path / "b"), "step": "3_400", "source": "obs://bucket/b/attempt-000001-ab"},
    ]
    ask = "from ma_boot.training import restored_step\nprint(restored_step({}))"
    variables = {"MABOOT_RESTORED": json.dumps(outputs), "MABOOT_RESTORED_STEP": "3_400"}
    places = {"": "3_400", repr(str(tmp_path / "a")): "None", repr(f"{tmp_path}/b/below"): "3_400"}
    for place, expected in places.items():
        assert train(ask.format(place), **variables).stdout == f"{expected}\n"
        assert train(ask.format(place)).stdout == "None\n", "without ma_boot"
    wrong = train(ask.format(repr(str(tmp_path / "bb"))), **variables)
    assert f"ValueError: {tmp_path}/bb is in no output with checkpoints" in wrong.stderr
    assert str(tmp_path / "a") in wrong.stderr
