"""Equal tracebacks of several ranks: one on standard output, all of them in the log files."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ma_boot.node.supervisor.output import OutputPump, WorkerOutput
from ma_boot.node.supervisor.traceback_folds import HELD_SECONDS
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import Node, eventually
from tests.functional.supervisor.conftest import EventLog, shell

LOG = "modelarts-job-test-proc-rank-{0}-device-{0}.txt"
RAISES = """
import os, signal, sys, time
os.chdir(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def step(rank):
    open(f"{rank}.begun", "w").close()
    while not all(os.path.exists(f"{other}.begun") for other in range(4)):
        time.sleep(0.01)
    raise ValueError(f"no data for rank {rank} on cuda:{rank} (pid {os.getpid()}) at {object()}")
step(int(os.environ["RANK_ID"]))
"""
FRAMES = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    step()\n'
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"
ERROR = FRAMES + "ValueError: no data\n"


class Ranks:
    """Pipes of ranks whose output goes to one console."""

    def __init__(self, directory: Path, inbox: SignalInbox, stack: ExitStack, count: int = 3) -> None:
        self.directory = directory
        self.journal = EventLog(directory)
        stack.callback(self.journal.close)
        self.pump = stack.enter_context(OutputPump(self.journal, inbox, 1 << 29, 1 << 30))
        self.outputs: list[WorkerOutput] = []
        self.sinks: list[int] = []
        for rank in range(count):
            source, sink = os.pipe()
            spec = shell(directory, rank, "")._replace(local_rank=rank)
            self.outputs.append(WorkerOutput(os.fdopen(source, "rb", 0), spec, self.journal))
            self.sinks.append(sink)
            stack.callback(self.end, rank)
            self.pump.add(self.outputs[-1])

    def print(self, rank: int, text: str) -> str:
        """Prints as a rank; returns the screen."""
        assert os.write(self.sinks[rank], text.encode()) == len(text.encode())
        self.pump.pump()
        return self.journal.screen()

    def end(self, rank: int) -> str:
        """Ends a rank; returns the screen."""
        if self.sinks[rank] >= 0:
            os.close(self.sinks[rank])
            self.sinks[rank] = -1
            self.outputs[rank].close()
        return self.journal.screen()

    def log(self, rank: int) -> str:
        """The log file of a rank."""
        self.journal.logs.flush()
        return (self.directory / f"rank_{rank}.txt").read_text()


@pytest.fixture
def ranks(tmp_path: Path, inbox: SignalInbox) -> Iterator[Ranks]:
    with ExitStack() as stack:
        yield Ranks(tmp_path, inbox, stack)


def shown(rank: int, text: str) -> str:
    """The lines as the console has them."""
    return "".join(f"[rank {rank}] {line}\n" for line in text.splitlines())


def test_one_exception_in_four_ranks_is_one_traceback(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    node.complete_table()
    (tmp_path / "train.py").write_text(RAISES)
    ended = node.boot("python", str(tmp_path / "train.py"), str(tmp_path))
    lines = ended.output.splitlines()
    assert len([line for line in lines if line.endswith("] Traceback (most recent call last):")]) == 1
    named = [
        line for line in lines if re.search(r"^\[ma_boot\] \d more ranks?: the same: .*no data for", line)
    ]
    assert len(named) == 1, ended.output
    assert named[0].startswith("[ma_boot] 3 more ranks: the same: ranks ")
    logs = [node.logs()[LOG.format(rank)].decode() for rank in range(4)]
    assert all(log.count("Traceback") == 1 and f"cuda:{rank} " in log for rank, log in enumerate(logs))


def test_traceback_of_the_first_rank_is_printed_line_by_line(ranks: Ranks) -> None:
    assert ranks.print(0, FRAMES) == shown(0, FRAMES)


def test_equal_traceback_is_not_printed_and_its_rank_is_named(ranks: Ranks) -> None:
    ranks.print(0, "begin\n" + ERROR)
    ranks.print(1, "begin\n" + ERROR)
    ranks.print(2, ERROR)
    for rank in range(3):
        screen = ranks.end(rank)
    assert screen == shown(0, "begin\n" + ERROR) + shown(1, "begin\n")
    ranks.pump.print_held()
    eventually(lambda: ranks.pump.patience() == 0, "the ranks are due")
    ranks.pump.print_held()
    named = "[ma_boot] 2 more ranks: the same: ranks 1-2 (ValueError: no data)\n"
    assert ranks.journal.screen() == screen + named
    assert [ranks.log(rank) for rank in range(3)] == ["begin\n" + ERROR, "begin\n" + ERROR, ERROR]


@pytest.mark.parametrize(
    "other",
    [
        FRAMES + "ValueError: no data at all\n",
        FRAMES + "KeyError: no data\n",
        FRAMES.replace("line 3", "line 4") + "ValueError: no data\n",
        ERROR + CHAINED + FRAMES + "KeyError: 1\n",
        ERROR + "EI0001: it goes on\n",
        FRAMES,
        FRAMES + "ValueError: tensor has rank 2\n",
    ],
    ids=["message", "type", "frame", "chained", "longer message", "cut", "number"],
)
def test_traceback_that_differs_is_printed(ranks: Ranks, other: str) -> None:
    first = ERROR if "tensor" not in other else FRAMES + "ValueError: tensor has rank 3\n"
    ranks.print(0, first)
    ranks.end(0)
    ranks.print(1, other)
    assert ranks.end(1) == shown(0, first) + shown(1, other)


def test_numbers_of_the_process_make_no_difference(ranks: Ranks) -> None:
    text = FRAMES + "RuntimeError: rank {0} on npu:{0}, pid 12{0}, <A at 0x7f00{0}> 10.0.0.{0}:29500\n"
    for rank in range(2):
        ranks.print(rank, text.format(rank))
        ranks.end(rank)
    assert ranks.journal.screen() == shown(0, text.format(0))


@pytest.mark.parametrize(
    "text",
    [
        ERROR + CHAINED + FRAMES + "KeyError: 1\n",
        ERROR + "EI0001: value\n        Solution: 1. Unset it.\n",
        ERROR + "a second line of the message\nand a third one\n",
        "".join(f"[rank0]: {line}\n" for line in ERROR.splitlines()),
    ],
    ids=["chained", "codes", "any lines", "prefix of PyTorch"],
)
def test_whole_exception_is_folded(ranks: Ranks, text: str) -> None:
    ranks.print(0, text)
    ranks.end(0)
    ranks.print(1, text.replace("[rank0]", "[rank1]"))
    assert ranks.end(1) == shown(0, text)


def test_output_after_a_folded_traceback_is_printed_in_order(ranks: Ranks) -> None:
    ranks.print(0, ERROR + "step 2\nstep 3\n")
    assert ranks.print(1, ERROR + "step 2\nstep 4\nstep 5\n").endswith(shown(1, "step 2\nstep 4\nstep 5\n"))


def test_rank_that_is_killed_in_its_traceback_loses_no_line(ranks: Ranks) -> None:
    ranks.print(0, ERROR)
    assert ranks.print(1, FRAMES + "ValueErr") == shown(0, ERROR)
    assert ranks.end(1) == shown(0, ERROR) + shown(1, FRAMES + "ValueErr")


def test_lines_are_held_for_a_second_at_most(ranks: Ranks) -> None:
    ranks.print(0, ERROR)
    began = time.monotonic()
    assert ranks.print(1, FRAMES) == shown(0, ERROR)
    assert 0 < ranks.pump.patience() <= HELD_SECONDS
    eventually(lambda: ranks.pump.patience() == 0, "the time is over")
    ranks.pump.print_held()
    assert ranks.journal.screen() == shown(0, ERROR) + shown(1, FRAMES)
    assert time.monotonic() - began >= HELD_SECONDS / 2


def test_second_traceback_of_a_rank_is_printed_again(ranks: Ranks) -> None:
    ranks.print(0, ERROR)
    ranks.print(0, "step 1\n")
    ranks.print(0, ERROR)
    assert ranks.end(0) == shown(0, ERROR + "step 1\n" + ERROR)
    for _ in range(3):
        ranks.print(1, ERROR + "step 1\n")
    assert ranks.end(1).endswith(shown(1, "step 1\nstep 1\n" + ERROR + "step 1\n"))


def ranks_in(text: str) -> set[int]:
    """The numbers of `ranks 0-2, 4`."""
    ends = [part.split("-") for part in text.partition(" ")[2].replace(" ", "").split(",") if part]
    return {rank for first, *last in ends for rank in range(int(first), int((last or [first])[0]) + 1)}


PIECES = st.sampled_from(
    [
        ERROR,
        FRAMES,
        ERROR + CHAINED + FRAMES + "KeyError: 1\n",
        "step 1\n",
        "step 2\n",
        "\n",
        "ValueError: no data\n",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.tuples(st.integers(0, 2), PIECES, st.integers(0, 60)), max_size=14))
def test_no_line_is_lost(
    tmp_path_factory: pytest.TempPathFactory, inbox: SignalInbox, pieces: list[tuple[int, str, int]]
) -> None:
    """Each line of a log file is on the console in its order, or is one of a folded traceback."""
    directory = tmp_path_factory.mktemp("folds")
    with ExitStack() as stack:
        ranks = Ranks(directory, inbox, stack)
        for rank, text, cut in pieces:
            ranks.print(rank, text[:cut])
            ranks.print(rank, text[cut:])
    screen = (directory / "screen").read_text()
    for rank in range(3):
        lines = re.findall(rf"^\[rank {rank}\] (.*)$", screen, re.MULTILINE)
        log = (directory / f"rank_{rank}.txt").read_text().splitlines()
        rest = iter(log)
        assert all(line in rest for line in lines), "in the order of the log"
        missing = Counter(log) - Counter(lines)
        named = sum(rank in ranks_in(line) for line in re.findall(r"the same: (ranks? [-\d, ]+)", screen))
        assert missing["Traceback (most recent call last):"] >= named
        assert bool(missing) == bool(named)
