"""What a command prints arrives completely, or its exit code says that it did not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAKE = [sys.executable, "-m", "ma_boot", "rank-table", "fake", "--nodes", "4"]


@pytest.mark.parametrize("arguments", [["rank-table", "fake"], ["doctor"]])
def test_a_full_disk(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        argv = [sys.executable, "-m", "ma_boot", *arguments]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 73, done.stderr
    assert done.stderr == "ma_boot: cannot write to standard output: No space left on device\n"


def test_a_pipe_that_is_not_blocking_gets_everything() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    argv = [*FAKE[:-1], "1000"]
    with subprocess.Popen(argv, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        with open(read, "rb") as pipe:
            text = pipe.read(1)
            time.sleep(0.5)  # the pipe is full meanwhile
            text += pipe.read()
    assert process.returncode == 0
    assert len(text) > 1 << 19
    assert len(json.loads(text)["group_list"][0]["instance_list"]) == 1000


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(FAKE, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
