"""The stacks of a hang: what is shown of them, what other nodes tell, and how long they are waited for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.environment.extras import install_command
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.rank_stacks import stacks_protocol, stacks_round
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_messages import decode_ends, decode_ranks
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport
from ma_boot.node.observe.rank_stacks.stacks_round import StacksRound
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import eventually
from tests.functional.observe.conftest import Others, alone, row
from tests.functional.supervisor.conftest import Started, shell

STACK = 'Thread 1 (active): "MainThread"\n    {} (train.py:{})\n    step (train.py:9)\n'


def reported(
    ranks: Sequence[RankAtHang], unranked: Sequence[tuple[str, str]] = (), silent: Sequence[int] = ()
) -> tuple[list[str], StacksReport]:
    """The lines and the report on these ranks."""
    report = StacksReport.of(ranks, silent)
    return report.lines(unranked), report


def message(body: Any, kind: str = "stacks", node: int = 2) -> PeerMessage:
    return PeerMessage(node, kind, body, 0.0)


def test_own_stacks_that_do_not_come_are_given_up(
    tmp_path: Path, started: Started, inbox: SignalInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A py-spy that does not answer: the hang is what counts."""
    monkeypatch.setattr(stacks_round, "OWN_SECONDS", 1.0)
    monkeypatch.setattr(stacks_protocol, "OWN_SECONDS", 1.0)
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\nexec sleep 600\n")
    spy.chmod(0o755)
    spec = shell(tmp_path, 0, "exec sleep 600")
    spec = spec._replace(
        environ={**spec.environ, "PATH": f"{tmp_path}:{spec.environ.get('PATH', os.defpath)}"}
    )
    with started(spec) as group:
        taken = StacksRound(group.workers, {}, alone(), inbox)
        eventually(taken.finished, "the time of the own stacks is over")
        lines, report = taken.report()
    assert lines[0] == "rank 0:\n  no stacks within 1 s"
    assert report.suspect is None


def test_equal_stacks_are_shown_once_and_at_most_six() -> None:
    ranks = [RankAtHang(rank, 0, STACK.format(f"f{rank // 2}", rank // 2)) for rank in range(14)]
    lines, report = reported(ranks, [("scheduler", "its stack\n")], [])
    heads = [line.partition("\n")[0] for line in lines]
    assert heads[:3] == ["scheduler:", "ranks 0-1:", "ranks 2-3:"]
    assert heads[6:8] == ["ranks 10-11:", "and 1 other stacks, all of them in the events of node 0"]
    assert lines[0] == "scheduler:\n  its stack"
    assert [fold.ranks for fold in report.folded] == [(2 * n, 2 * n + 1) for n in range(7)]
    assert not any("other stacks" in line for line in reported(ranks[:12], [], [])[0])


@pytest.mark.parametrize(
    ("count", "more"), [(40, None), (41, "  ... 1 lines more"), (50, "  ... 10 lines more")]
)
def test_of_a_long_stack_forty_lines_are_shown(count: int, more: str | None) -> None:
    text = "".join(f"line {number}\n" for number in range(count))
    shown = reported([], [("scheduler", text)], [])[0][0].split("\n")
    assert shown[:41] == ["scheduler:", *(f"  line {number}" for number in range(40))]
    assert shown[41:] == ([more] if more else [])


def test_at_most_forty_waits_are_shown_and_12000_characters_are_kept() -> None:
    ranks = [RankAtHang(rank, 0, f"x{rank}" + "y" * 13_000, waits_for=(rank + 1,)) for rank in range(45)]
    lines, report = reported(ranks, [], [])
    assert sum(line.startswith("HCCL: ") for line in lines) == min(40, len(report.waits))
    assert {len(fold.stack) for fold in report.folded} == {12_000}


def test_reason_is_given_where_no_rank_is_suspected() -> None:
    same = [RankAtHang(rank, 0, STACK.format("f", 1)) for rank in range(4)]
    lines, report = reported(same, [], [])
    assert (lines[-1], report.suspect, report.silent) == (
        "cannot tell: no rank differs from the others", None, (),
    )  # fmt: skip
    ranks = [same[0], RankAtHang(1, 0, "no stacks: py-spy is not installed")]
    assert reported(ranks, [], [])[0][-1] == f"cannot tell: no stacks of rank 1 ({install_command('hang')})"
    assert reported(ranks[1:], [], [])[0][-1] == f"cannot tell: no stacks ({install_command('hang')})"
    lines, report = reported(same, [], (3,))
    assert lines[-1].startswith("suspected: node 3: it does not answer")
    assert (report.suspect and report.suspect[:2], report.silent) == ((3, None), (3,))


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        ([row(4), row(5)], [4, 5]),
        ([], []),
        ([row(1)], None),
        ([row(4), row(4)], None),
        ([row("x")], None),
        ([{"rank": 4}], None),
        ([7], None),
        ("rows", None),
        (None, None),
        ([row(-1)], None),
        ([row(4, stack=7)], None),
        ([row(4, quiet=None)], None),
        ([row(4, quiet=float("nan"))], None),
    ],
    ids=["two", "none", "ours", "twice", "no number", "no fields", "no row", "no list", "nothing", "below 0",
         "no stack", "no time", "no number of seconds"],
)  # fmt: skip
def test_stacks_of_another_node_are_not_trusted(rows: Any, ranks: Sequence[int] | None) -> None:
    read = decode_ranks(message({"ranks": rows}), Others())
    assert (None if read is None else [rank.rank for rank in read]) == ranks


@pytest.mark.parametrize(
    ("codes", "ranks"),
    [
        ([[4, 3], [5, 0]], [(4, 3), (5, 0)]),
        ([[rank, 1] for rank in range(100, 165)], [(rank, 1) for rank in range(100, 164)]),
        ([[1, 3]], None),
        ([[4]], None),
        ([["x", 3]], None),
        ([[float("inf"), 3]], None),
        ([None], None),
        (None, None),
    ],
)
def test_how_another_nodes_ranks_have_ended_is_not_trusted_either(codes: Any, ranks: Any) -> None:
    read = decode_ends(message({"codes": codes}), Others())
    assert (None if read is None else [(rank.rank, rank.ended) for rank in read]) == ranks
    assert decode_ends(message({}), Others()) is None


def test_ranks_are_reported_when_the_collection_of_stacks_raises(
    started: Started, inbox: SignalInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(asked: object) -> list[str]:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(stacks_round, "stacks_of", broken)
    with started("exec sleep 600") as group:
        taken = StacksRound(group.workers, {}, Others(), inbox)
        eventually(taken.finished, "the report")
    assert taken.report()[0][0] == "rank 0:\n  no stacks: ZeroDivisionError: broken"
    assert [rank.node for rank in taken.state.ranks] == [0]


def test_a_rank_of_another_node_has_all_that_was_told() -> None:
    full = row(4, stack="s" * 12_001, quiet=2.5, waits_for=[1, 2], ended=7, state="Tt")
    assert decode_ranks(message({"ranks": [full, row(5)]}), Others()) == [
        RankAtHang(4, 2, "s" * 12_000, 2.5, (1, 2), 7, "T", 9.0),
        RankAtHang(5, 2, "s", 1.0, (), None, "S", 9.0),
    ]
    rows = [row(4, stack="a\x1b[31m\nb\x07", waits_for=list(range(20_000))), *map(row, range(5, 70))]
    first, *others = decode_ranks(message({"ranks": rows}), Others()) or []
    assert (first.stack, len(first.waits_for), len(others)) == ("a[31m\nb", 64, 63), "it moves no cursor"


def test_the_ranks_of_a_node_are_told_with_their_states(
    tmp_path: Path, started: Started, inbox: SignalInbox
) -> None:
    peers = Others(0, node=3)
    specs = [shell(tmp_path, rank, "exec sleep 600") for rank in (9, 0, 1)] + [
        shell(tmp_path, rank, "exit 3") for rank in (2, 7)
    ]
    specs[0] = specs[0]._replace(label="scheduler", rank=None)
    specs[-1] = specs[-1]._replace(label="another scheduler", rank=None)
    with started(*specs) as group:
        _, running, stopped, *ended = group.workers
        for worker in ended:
            worker.process.wait(30)
            worker.collect(worker.started_ns, stopped=False)
        os.kill(stopped.pid, signal.SIGSTOP)
        eventually(lambda: (process_stat(stopped.pid) or "?")[0] == "T", "it is stopped")
        taken = StacksRound(group.workers, {running.pid: 3.14159}, peers, inbox)
        eventually(lambda: bool(taken.finished() or peers.sent), "the own stacks")
        os.kill(stopped.pid, signal.SIGCONT)
    assert taken.report()[0][0].startswith("scheduler:")
    ((_, body),) = peers.sent
    assert [
        (rank["rank"], rank["node"], rank["quiet"], rank["state"], rank["ended"]) for rank in body["ranks"]
    ] == [
        (0, 3, 3.1, "S", None),
        (1, 3, 0.0, "T", None),
        (2, 3, 0.0, "", 3),
    ]
    assert all(rank["stack"].startswith("no stacks: ") for rank in body["ranks"][:2])


LAUNCHER = """
import os, subprocess, sys, time
def all_reduce(): time.sleep(600)
def next_batch(): time.sleep(600)
name = sys.argv[1]
if name in os.environ:
    loader = [sys.executable, "-c", "import time; time.sleep(600)"]  # has the variables of its rank
    subprocess.Popen(loader)
    open(f"up.{os.environ[name]}", "w").close()
    next_batch() if os.environ[name] == "9" else all_reduce()
for rank in range(8, 11):
    started = {**os.environ, name: f"{rank}", "LOCAL_RANK": f"{rank - 8}", "MS_ROLE": "MS_WORKER"}
    run = [sys.executable, sys.argv[0], name]
    subprocess.Popen(["sh", "-c", '"$@"; exit', "sh", *run] if rank == 10 else run, env=started)
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MS_NODE_ID"])
def test_the_ranks_that_a_launcher_has_started_are_shown_as_ranks(
    tmp_path: Path, started: Started, inbox: SignalInbox, name: str
) -> None:
    """Without their data loaders, and without the script around one of them."""
    peers = Others()
    (tmp_path / "train.py").write_text(LAUNCHER)
    spec = shell(tmp_path, 0, f"exec {sys.executable} train.py {name}")
    with started(spec._replace(label="command", rank=None)) as group:
        eventually(lambda: len(list(tmp_path.glob("up.*"))) == 3, "all ranks run")
        taken = StacksRound(group.workers, {}, peers, inbox)
        eventually(lambda: bool(taken.finished() or taken.state.own_done), "the own stacks")
        taken.receive(
            PeerMessage(1, "stacks", {"ranks": [row(9, stack="a lie"), row(11)]}, taken.state.began)
        )
        taken.receive(PeerMessage(2, "stacks", {"ranks": []}, taken.state.began))
    _, report = taken.report()
    assert [fold.ranks for fold in report.folded] == [(9,), (11,), (8, 10)]
    assert "next_batch (train.py:4)" in report.folded[0].stack
    assert report.suspect is not None
    assert (report.suspect.rank, report.suspect.node) == (9, 0)


DUMPS = """
import faulthandler, signal, time
faulthandler.register(signal.SIGUSR1)
print("EI0002: not received the Notify record from remote rank [7]", flush=True)
time.sleep(600)
"""


def test_output_of_a_rank_is_searched_for_stacks_and_waits(
    tmp_path: Path, started: Started, inbox: SignalInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no py-spy."""
    spec, peers = shell(tmp_path, 0, f"exec {sys.executable} train.py"), Others(0, node=1)
    (tmp_path / "train.py").write_text(DUMPS)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with started(spec) as group:
        (worker,) = group.workers
        eventually(lambda: worker.output.pump() or worker.output.tail(), "it is ready")
        taken = StacksRound(group.workers, {}, peers, inbox)
        eventually(lambda: (worker.output.pump(), taken.finished(), peers.sent)[-1], "the own stacks")
    ((_, body),) = peers.sent
    assert "most recent call first" in body["ranks"][0]["stack"]
    assert body["ranks"][0]["waits_for"] == (7,)


def test_a_command_without_ranks_is_shown_itself(
    tmp_path: Path, started: Started, inbox: SignalInbox
) -> None:
    spec = shell(tmp_path, 0, "exec sleep 600")
    with started(spec._replace(label="command", rank=None)) as group:
        taken = StacksRound(group.workers, {}, Others(), inbox)
        eventually(taken.finished, "the own stacks")
    assert taken.report()[0][0].startswith("command:\n  no stacks: ")
