"""Reports and failure files of each kind of end, compared with kept ones."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ma_boot.errors import InputMissing, OutputLost, listed
from ma_boot.platform.modelarts.job import Channel, ChannelContent
from ma_boot.report.cause import Cause
from ma_boot.report.exit_report import Ending, end_event, failure_document, report_lines
from ma_boot.report.result import HangSuspect, RunResult, WorkerExit
from tests.unit.report.golden.kept import golden

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n{}\n'
JOB = cast(Any, SimpleNamespace(log_dir="/log", host="worker-1", node_rank=1))
FORM = (
    ChannelContent(Channel("data_url", "inputs", "/in", "obs://b/in/"), 1, 700, True),
    ChannelContent(Channel("train_url", "outputs", "/out", "obs://b/out/"), 2000, 3_100_000, False),
    ChannelContent(Channel("logs", "outputs", "/more", "obs://b/more/"), 0, 0, True),
)
LOST = OutputLost(
    listed("not every output was uploaded:", ["obs://b/out/a: HTTP 403", "obs://b/out/b: HTTP 500"])
)


def ended(rank: int, code: int = 0, output: str = "", **fields: Any) -> WorkerExit:
    known: dict[str, Any] = {"signal": None, "stopped": False, **fields}
    return WorkerExit(
        f"rank {rank}", rank, rank + 8, 100 + rank, code, ended_ns=10**9 * rank, seconds=60.25 + rank,
        log_file=f"/log/rank-{rank}.txt", output=output, **known,
    )  # fmt: skip


def stopped(rank: int, output: str = "", **fields: Any) -> WorkerExit:
    return ended(rank, 143, output, signal=15, stopped=True, **fields)


FAILED = RunResult(
    (
        ended(3, 1, "step 7\n" + RAISED.format("RuntimeError: EI0006 " + "x" * 300), log_lost=70),
        ended(2, 139, RAISED.format("ConnectionError: peer"), signal=11),
        stopped(1, RAISED.format("ValueError: " + "y" * 300)),
        stopped(4),
        ended(0, output=RAISED.format("KeyError: caught")),
    ),
    advice=("give --workdir code", "or an absolute path"),
)
MPIRUN = """[1,0]<stdout>: step 1
[1,1]<stderr>: OSError: [Errno 28] No space left on device
--------
The first process to do so was:

  Process name: [[43157,1],1]
  Exit code:    3
"""
HIDDEN = RAISED.format("RuntimeError: EI0006") + "done\n"
ENDINGS = {
    "a process failed": Ending(JOB, None, None, FAILED, LOST, FORM, Cause(1, 3, 1, "RuntimeError", 5.0), True),
    "stopped after a failure": Ending(JOB, 15, None, FAILED._replace(exits=FAILED.exits[:2]), None),
    "stopped": Ending(JOB, 2, None, RunResult((stopped(1), stopped(0, RAISED.format("KeyError: 1")))), LOST),
    "refused": Ending(None, None, InputMissing("inputs: not in OBS\n  - obs://b/k"), None, None, FORM[:1]),
    "hung": Ending(
        JOB, None, None,
        RunResult((stopped(0), stopped(1)), hung="node 0, rank 1", suspect=HangSuspect(0, 1, "is in load")), LOST,
    ),
    "a node hung": Ending(None, None, None, RunResult((), hung="node 7", suspect=HangSuspect(7, None, "is silent")), None),
    "not killed": Ending(None, None, None, RunResult((stopped(0), ended(1)), left=("rank 0", "rank 2")), None),
    "output lost": Ending(JOB, None, None, RunResult((ended(0),)), LOST, FORM),
    "out of memory": Ending(
        JOB, None, None,
        RunResult((ended(0, 247, "an error of long ago: x", oom="the kernel killed 1 process"), ended(1, 1, log_lost=7, stopped=True),
                   ended(2, 2, log_lost=3))), None,
    ),
    "killed": Ending(None, None, None, RunResult((ended(0, 137, "error: x", signal=9),)), None),
    "mpirun": Ending(JOB, None, None, RunResult((ended(0, 3, MPIRUN)._replace(label="command", rank=None, device=None),)), None),
    "in doubt": Ending(JOB, None, None, RunResult((ended(0), ended(1, output=HIDDEN))), None, FORM[:1]),
    "in doubt and output lost": Ending(JOB, None, None, RunResult((ended(0, output=HIDDEN),)), LOST),
    "well": Ending(JOB, None, None, RunResult((ended(0), ended(1))), None, FORM),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_a_report_is_as_it_was(name: str) -> None:
    ending = ENDINGS[name]
    document = failure_document(ending)
    document["processes"] = [  # the first failure has all that is kept of a process
        f"{process['label']}: {process['part']}; {process['exception']}" for process in document["processes"]
    ]
    parts = (
        "\n".join(report_lines(ending, page="/log/page.html" if ending.lost else None)),
        json.dumps(end_event(ending), indent=1, ensure_ascii=False),
        json.dumps(document, indent=1, ensure_ascii=False),
    )
    now = "\n\n".join(parts) + "\n"
    assert now == golden(Path(__file__).with_name("reports") / f"{name.replace(' ', '_')}.txt", now)
