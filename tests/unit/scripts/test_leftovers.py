"""Processes that a command leaves: trainings show life, servers do not."""

from __future__ import annotations

import pytest

from ma_boot.node.scripts.leftovers import LeftProcess, LeftState, is_possible_training
from ma_boot.node.scripts.script_rank import Process, RankNumber

PLACES = ("/home/ma-user", "/job/code", "")
TRAINING = ("/usr/bin/python3", "-u", "train.py")


def left(
    *words: str, pid: int = 7, log: str | None = "/job/code/train.log", rank: int | None = None, **more: float
) -> LeftProcess:
    number = None if rank is None else RankNumber(rank)
    return LeftProcess(Process(pid, "1", 1, number=number), words or TRAINING, log, **more)


def waits(*looks: tuple[float, list[LeftProcess]]) -> bool:
    """Whether the job waits after these looks, each at its time after the command's end."""
    state = LeftState(0.0, PLACES)
    for now, found in looks:
        state = state.after_look(found, now)
    return not state.is_over(looks[-1][0])


@pytest.mark.parametrize(
    ("words", "log", "possible"),
    [
        (TRAINING, "/job/code/train.log", True),
        (TRAINING, "", True),
        (TRAINING, None, False),
        (TRAINING, "/tmp/ray/session/raylet.out", False),
        (TRAINING, "/job/codebase/train.log", False),
        (("torchrun", "train.py"), "/home/ma-user/log", True),
        (("python", "-m", "torch.distributed.run", "train.py"), "", True),
        (("python", "/usr/local/bin/tensorboard", "--logdir", "x"), "", False),
        (("python3.10", "-m", "tensorboard.main"), "", False),
        (("bash", "run.sh"), "", False),
        (("npu-smi", "info"), "/job/code/smi.log", False),
        (("sleep", "600"), "", False),
        (("python", "/x/site-packages/ray/dashboard/agent.py"), "/job/code/log", False),
        (("python", "-u", "/x/site-packages/ray/_private/log_monitor.py", "--session-dir"), "", False),
        ((), "", False),
    ],
)
def test_training_is_told_by_its_program_and_its_log(
    words: tuple[str, ...], log: str | None, possible: bool
) -> None:
    assert is_possible_training(LeftProcess(Process(7, "1", 1), words, log), PLACES) is possible


def test_every_process_is_awaited_for_five_seconds() -> None:
    server = left("sleep", "600", log=None)
    assert waits((0.0, [server]))
    assert waits((4.9, [server]))
    assert not waits((0.0, [server]), (5.0, [server]))
    assert not waits((0.0, []))


def test_late_first_look_is_no_sign_of_life() -> None:
    assert not waits((0.2, [left()]), (5.0, [left()])), "it is as old as the command"


def test_rank_is_awaited_without_a_sign_of_life() -> None:
    assert waits(*((now, [left("sleep", log=None, rank=0)]) for now in (0.0, 5.0, 500.0)))


def test_training_is_awaited_while_it_uses_cpu_or_writes() -> None:
    assert not waits((0.0, [left()]), (5.0, [left()]))
    assert waits((0.0, [left()]), (5.0, [left(cpu=0.1)]))
    assert not waits((0.0, [left()]), (5.0, [left(cpu=0.01)])), "a heartbeat"
    assert waits((0.0, [left()]), (5.0, [left(written=1.0)]))


def test_training_without_life_for_a_minute_is_given_up() -> None:
    alive = [(0.0, [left()]), (5.0, [left(cpu=4.0)])]
    assert waits(*alive, *((now, [left(cpu=4.0)]) for now in (10.0, 60.0)))
    assert not waits(*alive, *((now, [left(cpu=4.0)]) for now in (10.0, 60.0, 65.0)))


def test_process_that_a_training_starts_is_life() -> None:
    assert waits((0.0, [left("bash", "run.sh")]), (5.0, [left("bash", "run.sh"), left(pid=8)]))


def test_process_is_named_by_its_command_and_pid() -> None:
    assert str(left("sleep", "600")) == "sleep 600 (pid 7)"
    assert str(left("x" * 200)) == "x" * 117 + "... (pid 7)"
