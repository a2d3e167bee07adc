"""Real MindSpore of which one rank hangs, while the others wait for it in an AllReduce."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.frameworks.mindspore_jobs import events, rehearse
from tests.functional.node import PROGRAMS
from tests.mindspore_end import again_after_a_crash

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(400)]

OPTIONS = ("--rendezvous", "mindspore", "--hang-timeout", "6", "--hang-action", "stop", "--stop-timeout", "1")


@pytest.mark.parametrize(
    ("nodes", "way", "rank", "doing"),
    [
        (2, ("sleeps",), 1, "in sleeps (ms_hang.py:"),
        (2, ("waits",), 3, "in waits (ms_hang.py:"),
        (2, ("loops",), 0, "in loops (ms_hang.py:"),
        (2, ("loops", "silent"), 2, "in loops (ms_hang.py:"),
        # Of two ranks no majority tells which one waits.
        (1, ("loops", "graph"), 1, "in loops (ms_hang.py:"),
        (2, ("stops",), 2, "stopped by a signal (SIGSTOP, or a debugger)"),
    ],
    ids=["sleeps", "waits for a lock", "loops", "loops without steps", "loops beside a graph", "stopped"],
)
def test_rank_that_all_others_wait_for_is_named(
    tmp_path: Path, nodes: int, way: tuple[str, ...], rank: int, doing: str
) -> None:
    """By the exit line, the page and each node that has seen the hang; no other rank is."""
    program = [str(PROGRAMS / "ms_hang.py"), way[0], str(rank), *way[1:]]
    ended = again_after_a_crash(lambda: rehearse(tmp_path, nodes, *OPTIONS, *program), "step 3")
    assert ended.code == 124, ended.output
    guilty = f"node {rank // 2}, rank {rank}"
    assert f"[ma_boot] exit code 124: {guilty}: it hung: it is {doing}" in ended.output.splitlines()[-1]
    blamed = [line for line in ended.output.splitlines() if "suspected: " in line or " hung" in line]
    assert all(guilty in line for line in blamed), blamed
    rounds = [event for node in range(nodes) for event in events(tmp_path, "stacks", node)]
    others = [other for other in range(2 * nodes) if other != rank]
    assert rounds
    for event in rounds:
        assert (event["suspect"]["node"], event["suspect"]["rank"]) == (rank // 2, rank)
        assert sorted(fold["ranks"] for fold in event["folded"]) == sorted([[rank], others])
    (page,) = tmp_path.glob("ma_boot-rehearsal/*/report.html")
    assert f"rank {rank} is {doing}" in page.read_text()
