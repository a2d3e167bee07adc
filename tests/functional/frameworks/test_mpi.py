"""Real Open MPI (Debian's openmpi-bin) with four processes: what they see, and how a failure is told."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.functional.node import PROGRAMS, Node, eventually

RANK = str(PROGRAMS / "mpi_rank.py")

pytestmark = [pytest.mark.openmpi, pytest.mark.timeout(180)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, devices=4, variables={"RANK_TABLE_FILE": "", "RANK_ID": "7"})


@pytest.mark.parametrize("non_sink", [False, True])
def test_four_ranks_on_more_slots_than_cores(node: Node, non_sink: bool) -> None:
    node.variables["MABOOT_NON_SINK"] = "1" if non_sink else ""
    ended = node.boot("--rendezvous", "mpi", RANK)
    assert ended.code == 0, ended.output
    ranks = [json.loads(line.partition("seen ")[2]) for line in ended.output.splitlines() if "seen {" in line]
    assert sorted(rank["rank"] for rank in ranks) == ["0", "1", "2", "3"]
    for rank in ranks:
        assert (rank["OMPI_COMM_WORLD_SIZE"], rank["RANK_SIZE"]) == ("4", "4")
        assert rank["RANK_ID"] is rank["RANK_TABLE_FILE"] is None
        assert rank["GRAPH_OP_RUN"] == rank["HCCL_WHITELIST_DISABLE"] == ("1" if non_sink else None)


@pytest.mark.parametrize(
    ("how", "code", "cause"),
    [
        (
            "raise",
            1,
            "(exit code of the training process): ValueError: planted in rank 2, at programs/mpi_rank.py:40",
        ),
        ("7", 7, "rank 2 under mpirun ended with exit code 7"),
        ("SIGKILL", 137, "rank 2 under mpirun ended with exit code 137"),
        ("SIGSEGV", 139, "rank 2 under mpirun ended with exit code 139"),
    ],
)
def test_the_rank_that_fails_first_is_the_cause(node: Node, how: str, code: int, cause: str) -> None:
    ended = node.boot("--rendezvous", "mpi", RANK, how)
    assert ended.code == code, ended.output
    assert cause in ended.output.splitlines()[-1]
    failure = json.loads((node.log_dir / "modelarts-job-test-node-0-failure.json").read_text())
    assert failure["exit_code"] == code
    if how == "raise":
        assert failure["last_words"][0] == "Traceback (most recent call last):"
        assert "ValueError: planted in rank 2" in failure["last_words"]  # mpirun mixes its two streams


@pytest.mark.parametrize(("how", "code"), [("kill -9 $$", 137), ("exit 7", 7)])
def test_a_rank_that_fails_before_all_have_started_is_not_taken_for_mpirun(
    node: Node, how: str, code: int
) -> None:
    """mpirun mostly says then only that one of them has failed."""
    program = f"[ $OMPI_COMM_WORLD_RANK = 0 ] && {how}; exec sleep 600"
    ended = node.boot("--rendezvous", "mpi", "--", "sh", "-c", program)
    assert ended.code == code, ended.output
    (named,) = re.findall(r": (.*) under mpirun ended with exit code", ended.output.splitlines()[-1])
    assert named in ("a rank", "rank 0")


def test_sigterm_ends_mpirun_and_its_ranks(node: Node) -> None:
    running = node.start("--rendezvous", "mpi", RANK, "wait")
    running.until("seen {")
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 143, ended.output
    eventually(lambda: not _left(node), "no rank is left")


def _left(node: Node) -> bool:
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if (
                int(environ.parent.name) != os.getpid()
                and f"HOME={node.home}".encode() in environ.read_bytes()
            ):
                return True
        except OSError:
            continue
    return False


def test_a_hang_shows_the_stacks_of_the_ranks(node: Node) -> None:
    ended = node.boot("--rendezvous", "mpi", "--hang-timeout", "4", "--hang-action", "stop", RANK, "wait")
    assert ended.code == 124, ended.output
    (event,) = [event for event in node.events() if event["kind"] == "stacks"]
    assert [fold["ranks"] for fold in event["folded"]] == [[0, 1, 2, 3]]
    assert "<module> (mpi_rank.py:" in event["folded"][0]["stack"]


def test_several_nodes_are_refused(node: Node) -> None:
    node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="0", VC_WORKER_HOSTS="127.0.0.1,127.0.0.2")
    ended = node.boot("--rendezvous", "mpi", RANK)
    assert ended.code == 78
    assert "mpirun would need an sshd on every node" in ended.output
