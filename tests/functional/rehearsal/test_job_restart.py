"""`--max-restarts` in jobs of several nodes: all of them start again in place, or none; rehearsals with real ranks."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node, eventually
from tests.functional.rehearsal.jobs import (
    AT_ONCE,
    CHECKPOINTS,
    HEAD,
    SHAPE,
    end,
    last_lines,
    node_events,
    rehearse,
    restarts,
    start,
    with_outputs,
    write,
)

FAILS_ONCE = ["time.sleep(0.5)", "if rank == 3 and attempt == 1: raise ValueError('bad label 91')",
              "if attempt == 1: time.sleep(600)"]  # fmt: skip


@pytest.mark.parametrize("nodes", [2, 4])
def test_all_nodes_start_again_after_a_rank_of_one_has_raised(laptop: Path, nodes: int) -> None:
    shape = ["--nodes", str(nodes), *SHAPE[2:], "--max-restarts", "1"]
    ended = rehearse(laptop, *shape, write(laptop, *HEAD, *FAILS_ONCE), more=AT_ONCE)
    assert ended.code == 0, ended.output
    assert restarts(laptop) == list(range(nodes))
    for rank in range(2 * nodes):
        assert f"rank {rank} attempt 2" in ended.output
    reason = (
        "attempt 1: node 1, rank 3: ValueError: bad label 91, at project/train.py:6; starting attempt 2 of 2"
    )
    assert ended.output.count(reason) == nodes
    (job,) = (laptop / "ma_boot-rehearsal").glob("ma-job-*")
    command = [sys.executable, "-m", "ma_boot", "report", str(job)]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert reported[1] == "restart 1: node 1, rank 3: ValueError: bad label 91, at project/train.py:6"
    assert not reported[2].startswith("restart"), "one of the job, not one of each node"
    assert re.search(r"进程重启次数</span></dt><dd>1</dd>", (job / "report.html").read_text())
    ends = sorted(event["ended_ns"] for event in node_events(laptop, "exit"))[: 2 * nodes]
    starts = sorted(event["monotonic_ns"] for event in node_events(laptop, "start"))[2 * nodes :]
    assert ends[-1] < starts[0], "no rank starts before all have stopped"


@pytest.mark.parametrize(
    ("more", "failure", "why"),
    [
        (AT_ONCE, "raise ValueError('bad label 91')", "same failure twice without a checkpoint"),
        (AT_ONCE, "sys.exit(2)", "a configuration error (wrong use of the command): node 1, rank 3"),
        ({}, "raise ValueError('bad label 91')", "node 1: it failed within its first 10 s"),
    ],
)
def test_failure_that_would_repeat_is_not_retried_on_any_node(
    laptop: Path, more: dict[str, str], failure: str, why: str
) -> None:
    training = [*HEAD, "time.sleep(0.5)", f"if rank == 3: {failure}", "time.sleep(600)"]
    ended = rehearse(laptop, *SHAPE, "--max-restarts", "3", write(laptop, *training), more=more)
    assert ended.code in (1, 2)
    assert ended.output.count(f"no restart: {why}") == 2, ended.output
    assert restarts(laptop) == ([0, 1] if "twice" in why else [])
    lines = last_lines(ended)
    assert lines[0] == lines[1]
    assert lines[0].startswith("[ma_boot] the job's cause: node 1, rank 3")
    codes = {event["exit_code"] for event in node_events(laptop, "end")}
    assert codes <= {ended.code, 128 + signal.SIGTERM}, "the code of the cause, also where nothing failed"


def ends(laptop: Path) -> dict[int, int]:
    """The exit code that each node has reported."""
    return {event["node"]: event["exit_code"] for event in node_events(laptop, "end")}


def test_a_rank_that_raised_but_ended_late_gives_the_code_on_every_node(laptop: Path) -> None:
    """Rank 3 raises and takes its time; rank 0 loses it, ends first, and so all ranks are stopped."""
    training = write(
        laptop,
        "import traceback",
        *HEAD,
        "time.sleep(0.5)",
        "if rank == 3:",
        "    try: raise ValueError('bad label 91')",
        "    except ValueError: traceback.print_exc()",
        "    time.sleep(600)",
        "time.sleep(0.5)",
        "if rank == 0: print('lost', file=sys.stderr); raise ConnectionResetError('Connection reset by peer')",
        "time.sleep(600)",
    )
    ended = rehearse(laptop, *SHAPE, "--max-restarts", "1", training, more=AT_ONCE)
    assert "rank 0 ended with exit code 1: stopping rank 1" in ended.output, "it ended first"
    assert ends(laptop) == {0: 1, 1: 1}, ended.output
    cause = "[ma_boot] the job's cause: node 1, rank 3: ValueError: bad label 91, at project/train.py:8"
    assert last_lines(ended) == [cause] * 2


def test_a_hang_without_a_suspect_gives_124_on_every_node(laptop: Path) -> None:
    training = write(laptop, *HEAD, "time.sleep(600)")
    options = ["--max-restarts", "1", "--hang-timeout", "1", "--hang-action", "stop"]
    ended = rehearse(laptop, "--nodes", "2", *options, training, more=AT_ONCE)
    assert restarts(laptop) == [0, 1], ended.output
    assert ends(laptop) == {0: 124, 1: 124}, ended.output


def test_a_node_whose_table_has_changed_ends_with_the_code_of_the_cause(laptop: Path) -> None:
    """The verdict is to start again, which this node cannot: its own ranks were only stopped."""
    training = write(
        laptop,
        *HEAD,
        "from pathlib import Path",
        "node = next(path for path in Path.cwd().parents if (path / 'user').is_dir())",
        "table = node / 'user/config/jobstart_hccl.json'",
        "time.sleep(0.5)",
        """if rank == 0: table.write_text('{"status": "completed"}')""",
        "time.sleep(0.5)",
        "if rank == 3 and attempt == 1: sys.exit(3)",
        "time.sleep(600)",
    )
    ended = rehearse(laptop, *SHAPE, "--max-restarts", "1", training, more=AT_ONCE)
    assert "[node 0] [ma_boot] warning: no restart: " in ended.output
    assert ends(laptop)[0] == 3, ended.output
    assert ended.code == 3
    page = next(laptop.glob("ma_boot-rehearsal/*/node-0/home/ma-user/modelarts/log/*-report.html"))
    assert "succeeded" not in page.read_text()


@pytest.mark.invariant(
    "An unknown end is a failure; 0 only if all processes ended with 0 by themselves and the job was not given up"
)
@pytest.mark.parametrize(("more", "codes"), [(AT_ONCE, {0: 0, 1: 0}), ({}, {0: 1, 1: 1})])
def test_a_handler_that_ends_stopped_ranks_with_0_does_not_end_the_job_well(
    laptop: Path, more: dict[str, str], codes: dict[int, int]
) -> None:
    """A restart of the job restarts these ranks too; without one, this node ends with the code of the cause."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    training = write(laptop, "import signal", handler, *HEAD, *FAILS_ONCE)
    ended = rehearse(laptop, *SHAPE, "--max-restarts", "1", training, more=more)
    assert ends(laptop) == codes, ended.output
    assert restarts(laptop) == ([0, 1] if more else [])


SAVES = [
    *HEAD,
    "from pathlib import Path",
    "restored = int(os.environ.get('MABOOT_RESTORED_STEP', 0))",
    "print(f'rank {rank} resumes from {restored}', flush=True)",
    "for step in range(restored + 10, 60, 10):",
    "    file = Path('ckpt') / f'iter_{step}' / f'rank_{rank}.bin'",
    "    file.parent.mkdir(parents=True, exist_ok=True)",
    "    file.write_text(f'{step} of {rank}')",
    "    time.sleep(1.2)",
    "    if attempt == 1 and step == 40:",
    "        if rank == 3: raise ValueError('bad label 91')",
    "        time.sleep(600)",  # as in a collective operation that one has left
]


def test_all_go_on_from_the_newest_whole_checkpoint(laptop: Path) -> None:
    options = with_outputs(laptop, ckpt=CHECKPOINTS)
    ended = rehearse(laptop, *SHAPE, *options, "--max-restarts", "1", write(laptop, *SAVES), more=AT_ONCE)
    assert ended.code == 0, ended.output
    assert restarts(laptop) == [0, 1]
    steps = {
        line.rpartition(" ")[2]
        for line in ended.output.splitlines()
        if "resumes from" in line and "rank " in line
    }
    again = {step for step in steps if step.isdecimal()} - {"0"}
    assert len(again) == 1, f"all ranks resume from the same step: {steps}"
    assert int(again.pop()) >= 20


RESUMES = [
    *HEAD,
    "import signal",
    "from ma_boot.training import checkpoint, restored_step",
    "for step in range(int(restored_step('ckpt') or 0) + 1, 11):",
    "    print(f'step: {step} loss: 1.0', flush=True)",
    "    if step % 4 == 0:",
    "        os.makedirs(f'ckpt/iter_{step}', exist_ok=True)",
    "        open(f'ckpt/iter_{step}/rank_{rank}.bin', 'w').write(str(step))",
    "        checkpoint(step)",
    "        time.sleep(1)",
]


def test_the_same_failure_after_the_same_checkpoint_ends_the_job(laptop: Path) -> None:
    """The second attempt resumes from the checkpoint of the first, and makes no newer one."""
    options = [*with_outputs(laptop, ckpt=CHECKPOINTS), "--max-restarts", "5"]
    training = write(laptop, *RESUMES, "    if step == 6: raise RuntimeError('always')")
    ended = rehearse(laptop, "--nodes", "1", "--devices-per-node", "1", *options, training, more=AT_ONCE)
    assert ended.code == 1
    assert "no restart: same failure twice with no newer complete checkpoint" in ended.output
    assert restarts(laptop) == [0], ended.output


def test_a_job_that_advances_restarts_after_a_failure_that_came_before(laptop: Path) -> None:
    """Killed twice before the first checkpoint, and once more after it, in an attempt that makes no newer one."""
    options = [*with_outputs(laptop, ckpt=CHECKPOINTS), "--max-restarts", "5"]
    training = write(
        laptop,
        *RESUMES,
        "    if (attempt, step) in ((1, 3), (2, 3), (4, 7)): os.kill(os.getpid(), signal.SIGKILL)",
        "    if (attempt, step) == (3, 6): raise RuntimeError('another failure')",
    )
    ended = rehearse(laptop, "--nodes", "1", "--devices-per-node", "1", *options, training, more=AT_ONCE)
    assert ended.code == 0, ended.output
    assert restarts(laptop) == 4 * [0]


def test_a_broken_card_ends_the_job_for_new_pods(laptop: Path) -> None:
    training = write(laptop, *HEAD, "time.sleep(600)")
    ended = rehearse(
        laptop, *SHAPE, "--max-restarts", "3", "--fault", "bad-card node=1 at=1s", training, more=AT_ONCE
    )
    assert ended.code == 128 + signal.SIGABRT, ended.output
    assert ended.output.count("no restart: hardware: needs new pods (node 1: NPU 0 is Alarm (npu-smi))") == 2
    assert restarts(laptop) == []


def test_a_stop_while_the_nodes_agree_ends_them(laptop: Path) -> None:
    """Node 0's ranks ignore SIGTERM: the others wait for them when the job is stopped."""
    training = [
        "import signal", *HEAD, "if rank < 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)", *FAILS_ONCE,
    ]  # fmt: skip
    shape = [*SHAPE[:-1], "30", "--max-restarts", "1"]
    running = start(laptop, *shape, write(laptop, *training), more=AT_ONCE)
    eventually(
        lambda: any(event["node"] == 0 for event in node_events(laptop, "stop")), "node 0 stops its ranks"
    )
    running.terminate()
    ended = end(running)
    assert ended.code == 128 + signal.SIGTERM, ended.output
    assert restarts(laptop) == []


@pytest.mark.parametrize("checkpoints", [False, True])
def test_restarts_of_several_nodes_without_a_token_are_a_configuration_error(
    laptop: Path, checkpoints: bool
) -> None:
    """Also with checkpoints in OBS: the channel is the only transport between nodes."""
    node = Node(laptop, 1)
    node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="0", VC_WORKER_HOSTS="127.77.1.1,127.77.1.2")
    options = with_outputs(laptop, ckpt=CHECKPOINTS) if checkpoints else []
    if options:
        options[1] = str(laptop / "mapping.py")
    ended = node.boot("--max-restarts", "1", *options, RANK)
    assert ended.code == 78
    assert "--max-restarts with 2 nodes requires a job token: set MABOOT_JOB_TOKEN" in ended.output
