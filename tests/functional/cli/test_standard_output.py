"""Standard output arrives completely, or the exit code reports the loss."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import eventually

FAKE = [sys.executable, "-m", "ma_boot", "rank-table", "fake", "--nodes", "4"]


COMPLETION = {"_MA_BOOT_COMPLETE": "bash_complete", "COMP_WORDS": "ma_boot ra", "COMP_CWORD": "1"}
SHOWN_BY_CLICK = [
    (["--help"], {}),
    (["--help", "all"], {}),
    (["sync", "--help"], {}),
    (["--version"], {}),
    ([], {"_MA_BOOT_COMPLETE": "bash_source"}),
    ([], COMPLETION),
]


@pytest.mark.parametrize(
    ("arguments", "variables"), [(["rank-table", "fake"], {}), (["doctor"], {}), *SHOWN_BY_CLICK]
)
def test_full_disk_is_an_error(arguments: list[str], variables: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        argv = [f"{Path(sys.executable).parent}/ma_boot", *arguments]
        environ = {**os.environ, **variables}
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=environ, text=True, check=False)
    assert done.returncode == 73, done.stderr
    assert done.stderr == "ma_boot: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("argv", [[*FAKE[:-1], "1000"], [*FAKE[:3], "--help", "all"]])
def test_nonblocking_pipe_receives_all_output(argv: list[str]) -> None:
    expected = subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout
    read, write = os.pipe()
    os.set_blocking(write, False)
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += os.write(write, bytes(1 << 12))
    with subprocess.Popen(argv, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        waits = Path(f"/proc/{process.pid}/wchan")
        eventually(
            lambda: "poll" in waits.read_text() or "select" in waits.read_text(), "it waits for the reader"
        )
        with open(read, "rb") as pipe:
            text = pipe.read()[full:]
        assert (process.wait(), process.stderr and process.stderr.read()) == (0, b"")
    assert text == expected


@pytest.mark.parametrize("argv", [FAKE, [*FAKE[:3], "--help", "all"], [*FAKE[:3], "--version"]])
def test_closed_pipe_is_no_error(argv: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
