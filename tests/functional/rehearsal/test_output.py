"""What a rehearsal prints with `-q`, and with `--json`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.functional.rehearsal.jobs import SHAPE, end, start, write


@pytest.mark.parametrize(("code", "cause"), [(0, "success"), (3, "node 1, rank 3 ended with exit code 3")])
def test_quiet_prints_the_lines_of_the_training_and_one_at_the_end(
    laptop: Path, code: int, cause: str
) -> None:
    train = write(laptop, "print('of', rank, flush=True)", f"sys.exit({code} if rank == 3 else 0)")
    ended = end(start(laptop, "-q", *SHAPE, train, more={"MABOOT_VERBOSE": ""}))
    assert ended.code == code
    *lines, last = ended.output.splitlines()
    assert sorted(lines) == [f"[node {rank // 2}] [rank {rank}] of {rank}" for rank in range(4)]
    assert last.startswith(f"[ma_boot] exit code {code}: {cause}")


def test_json_is_the_result_alone_on_standard_output(laptop: Path) -> None:
    train = write(laptop, "print('of', rank, flush=True)", "time.sleep(60)")
    fault = "kill rank=2 line=1"
    process = start(laptop, "--json", "--fault", fault, *SHAPE, train, errors=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    result = json.loads(output)
    assert process.returncode == result["exit_code"] == result["job_exit_code"] == 137
    assert result["cause"].startswith("node 1, rank 2 was killed by SIGKILL")
    assert (result["nodes"], result["devices_per_node"]) == (2, 2)
    assert Path(result["page"]).parent == Path(result["directory"])
    assert all(Path(log).is_dir() for log in result["logs"])
    assert [(verdict["fault"], verdict["came"]) for verdict in result["faults"]] == [(fault, True)]
    assert b"[rank 0] of 0" in errors
