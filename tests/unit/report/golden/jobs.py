"""Jobs whose pages are kept: between them they have whatever a page can show."""

from __future__ import annotations

import json
from typing import Any

from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.report.doubt import Doubt
from ma_boot.wording import Message, ranks_text
from path_mapping.errors import MissingInputs
from tests.synthetic import BEGAN, Writer

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 9\nRuntimeError: EI0006 {}\n'


BY_SIGTERM = Message.of("stopped by {}", "SIGTERM")


def with_code(code: int) -> str:
    """How a process ended."""
    return Message.of("ended with exit code {}", code)


def jobs() -> dict[str, list[str]]:
    """The event files of each job, by the name of its page."""
    return {
        "failed_again": failed_again(),
        "succeeded": succeeded(),
        "in_doubt": in_doubt(),
        "hung": hung(),
        "many_nodes": many_nodes(),
        "rehearsed": rehearsed(),
        "refused": refused(),
        "stopped": stopped(),
    }


def tails() -> dict[str, str]:
    """The ends of the logs of all these jobs."""
    return {
        "/log/rank-3": "loading <shards>\n" + TRACEBACK.format("Getting socket times out"),
        "/log/rank-2": "step 7\n",
        "/log/rank-40": "MemoryError\n",
        "/log/command-1": TRACEBACK.format("<no card>") + "done\n",
        "/log/node-1": "Killed\n",
    }


def failed_again() -> list[str]:
    """Two of three nodes; the first one ran the boot command twice, and restarted its ranks the second time."""
    first = Writer(0, 10**13)
    first.phase("job", -5000, -4000)
    again = Writer(0, 10**13)
    again.phase("job", 0, 0.25)
    again.at(0.125, "job", name="flowers", nodes=3, host="a", command="", schedule_count=1)
    again.phase("run", 1, 40, "failed", "rank 0 ended with exit code 1")
    again.at(1, "routes", inputs=[["/cache/old", "obs://b/old/"]], outputs=[])
    started(again, 1, 0, 1)
    ended(again, 39, 0, code=1)
    ended(again, 39.5, 1, code=143, signal=15, stopped=True)
    again.at(40, "end", exit_code=1, by="training", cause="rank 0 ended with exit code 1", label="rank 0")
    last = Writer(0, 10**13)
    last.phase("job", 100, 100.5)
    last.at(
        100, "job", name="flowers", nodes=3, host="a", command="ma_boot -- python train.py", schedule_count=2
    )
    data_of(last)
    last.at(105, "waiting", what="rank table", reason="status is initializing")
    last.phase("rank table", 101, 131)
    last.phase("environment", 103, 104)
    attempts(last)
    last.phase("outputs", 290, 300, "failed", "2 of 3 files")
    last.at(298, "transfer", direction="upload", files=7, bytes=5_000_000, seconds=8, by_length=2, retries=3)
    last.at(
        300,
        "end",
        exit_code=137,
        by="training",
        cause=Message.of("{} {}", "rank 3", Message.of("was killed by {}", "SIGKILL")),
        label="rank 3",
        words="",
    )
    torn = '{"kind": "exit", "label": "rank'
    return [first.text() + again.text() + "\n" + last.text() + torn, lost_its_peer().text()]


def data_of(node: Writer) -> None:
    """Inputs and outputs of a path mapping and of a job form, and how they moved."""
    node.at(
        101, "routes", inputs=[["/cache/data", "obs://b/data/"]], outputs=[["/cache/out", "obs://b/out/"]]
    )
    node.at(
        101,
        "channel",
        direction="input",
        name="data_url",
        local_dir="/in",
        url="obs://b/in/",
        files=3,
        bytes=2000,
    )
    node.at(
        101, "channel", direction="output", name="train_url", local_dir="/o", url="obs://b/o/", files=2, bytes=700, complete=False,
    )  # fmt: skip
    node.phase("inputs", 101, 121, "done", "3 files")
    for at, done in ((106, 400), (111, 600), (116, 900)):
        node.at(at, "progress", direction="download", bytes_done=done)
    node.at(121, "transfer", direction="download", files=3, bytes=1000, seconds=20)
    node.at(280, "progress", direction="upload", bytes_done=70)


def attempts(node: Writer) -> None:
    """Two attempts of four ranks and a scheduler; the first ends by an exception, the second by the kernel."""
    node.phase("run", 135, 290, "failed", "rank 3 was killed by SIGKILL")
    node.at(135, "left-over", pids=[11, 12])
    node.at(135, "restored", step="120", source="obs://b/ckpt/")
    node.at(135, "start", label="scheduler", rank=None, log_file="/log/scheduler")
    started(node, 140, 0, 1, 2, 3)
    for turn in range(6):
        node.at(150 + 20 * turn, "metrics", **measured(turn))
    node.at(190, "slow rank", rank=2, step_time=1.9, others=1.25)
    node.at(195, "loss not finite", label="rank 1", step=130, loss="nan")
    ended(node, 200, 2, code=5)
    node.at(200.5, "stop", reason=Message.of("{} {}", "rank 2", with_code(5)))
    node.at(205, "kill", left=["rank 0", "rank 3"], signal=9)
    for rank in (0, 1, 3):
        ended(
            node,
            206 + rank,
            rank,
            code=143 if rank == 1 else 137,
            signal=15 if rank == 1 else 9,
            stopped=True,
        )
    node.at(210, "restart", reason=Message.of("{} {}", "rank 2", with_code(5)))
    started(node, 211, 0, 1, 2, 3)
    node.at(212, "dropped", lines=7)
    node.at(230, "checkpoint", step="140", files=2, bytes=542_750, seconds=0.5)
    node.at(280, "fault", target="rank 3", fault="kill 9")
    killed = Message.of("{} process", 1)
    oom = Message.of("the kernel killed {} of this container (limit {} MiB)", killed, 300)
    ended(node, 281, 3, code=137, signal=9, oom=oom)
    ended(node, 282, 0, code=1)
    node.at(286, "unkillable", left=["rank 1"])
    ended(node, 287, 2, code=0)
    ended(node, 288, 1, code=247, stopped=True)
    ended(node, 289, "scheduler", code=0)
    node.at(289, "checkpoints", published="140", whole="140", before="120", age=75)


def lost_its_peer() -> Writer:
    """The second node: what it is told of the first one, and no end of a process."""
    node = Writer(1, 5 * 10**12)
    node.phase("job", 101, 101.5)
    node.at(
        101, "job", name="flowers", nodes=3, host="b", command="ma_boot -- python other.py", schedule_count=2
    )
    node.at(101, "routes", inputs=[["/cache/data", "obs://b/data/"]], outputs=[])
    node.at(105, "waiting", what="rank table", reason="status is initializing")
    node.at(140, "phase-start", phase="run")
    started(node, 140, 4, 5)
    node.at(150, "metrics", **measured(0, first=4))
    node.at(260, "reset", reason="the platform ends the job")
    node.at(
        281,
        "job cause",
        cause={"node": 0, "rank": 3, "code": 137, "words": Message.of("out of memory: {}", "1 killed")},
    )
    ended(node, 283, 4, code=143, signal=15, stopped=True)
    node.at(295, "end", exit_code=143, by="signal", cause=BY_SIGTERM, signal=15)
    return node


def started(node: Writer, at: float, *ranks: int) -> None:
    """Starts ranks; each prints something a few seconds later, rank 1 never."""
    for rank in ranks:
        who = {"label": f"rank {rank}", "rank": rank}
        node.at(at, "start", **who, log_file=f"/log/rank-{rank}")
        if rank != 1:
            node.at(at + 9, "first-output", **who, first_ns=node.ns(at + 5 + rank))


def ended(node: Writer, at: float, who: object, **fields: Any) -> None:
    """The end of a rank or of a process with another label, noticed half a second later."""
    label = f"rank {who}" if isinstance(who, int) else str(who)
    node.at(at + 0.5, "exit", label=label, ended_ns=node.ns(at), **{"stopped": False, **fields})


def measured(turn: int, first: int = 0, count: int = 4) -> dict[str, Any]:
    """A sample; the values of ranks and cards differ, and change in time."""
    ranks = list(range(first, first + count))
    return {
        "ranks": {
            "rank": ranks, "step_time": [1.5 + rank / 8 + (40 if turn == 0 else 0) for rank in ranks],
            "loss": [4 / (1 + turn) + rank / 10 for rank in ranks], "cpu": [0.9 + rank / 20 for rank in ranks],
            "rss": [2000 + 10 * turn + rank for rank in ranks], "threads": [60 for _ in ranks],
            "read": [3.5 * turn for _ in ranks], "written": [0 for _ in ranks],
            "values": {"lr": [(9 - turn) / 1000 for _ in ranks], "scale": [1024 for _ in ranks]},
        },
        "cards": {
            "card": ranks[:2], "utilisation": [90 + turn, 95], "memory": [30_000, 31_000], "temperature": [55 + turn, 60],
            "power": [300, 310.5],
        },
        "host": {
            "cpu": 4.5 + turn, "memory": [120_000, 512_000], "disks": {"/cache": [1200 + turn, 50_000], "/dev/shm": [9, 20]},
            "received": 1.25 * turn, "sent": 0.5,
        },
    }  # fmt: skip


def succeeded() -> list[str]:
    """One node, nine transfers, all well."""
    node = Writer(0, 10**12)
    node.phase("job", 0, 0.5)
    node.at(0, "job", name="roses", nodes=1, command="ma_boot -- python train.py --fast")
    for number in range(8):
        node.at(
            3 + number, "transfer", direction="download", files=1, bytes=1000 * (1 + number), seconds=2, retries=number % 2,
        )  # fmt: skip
    node.phase("inputs", 1, 11)
    node.phase("run", 12, 80)
    started(node, 12, 0, 1, 2)
    for turn in range(3):
        node.at(20 + 20 * turn, "metrics", **measured(turn, count=3))
    for rank in range(3):
        ended(node, 79, rank, code=0)
    node.at(90, "transfer", direction="upload", files=2, bytes=1_300_000_000, seconds=10)
    node.phase("outputs", 80, 90)
    node.at(90, "end", exit_code=0, by=None, cause="success")
    return [node.text()]


def in_doubt() -> list[str]:
    """Two nodes that ended with 0; on the second one the command hides a failure."""
    files = []
    for number in range(2):
        node = Writer(number, 10**12)
        node.phase("job", 0, 1)
        node.at(0, "job", name="violets", nodes=2, program="run.sh")
        node.phase("run", 1, 30)
        log_file = f"/log/command-{number}"
        node.at(2, "start", label="command", rank=None, log_file=log_file)
        ended(node, 29, "command", code=0)
        doubt = Doubt("command", None, "RuntimeError: EI0006 <no card>", "code/train.py:9", log_file)
        cause = str(doubt) if number else "success"
        node.at(31, "end", exit_code=0, by=None, cause=cause, doubt=doubt.fields() if number else None)
        files.append(node.text())
    return files


def hung() -> list[str]:
    """Two nodes; one process hangs in another place than the others."""
    files = []
    for number in range(2):
        node = Writer(number, 10**12)
        node.phase("job", 0, 1)
        node.at(0, "job", name="tulips", nodes=2)
        started(node, 2, 2 * number, 2 * number + 1)
        node.at(30, "hang", labels=[f"rank {2 * number}", f"rank {2 * number + 1}"])
        if number == 0:
            folded = [
                {"ranks": [1], "stack": "read (data.py:7)\nload <shard>"},
                {"ranks": [0, 2, 3], "stack": "all_reduce"},
                {"ranks": [], "stack": "nobody"},
            ]
            node.at(31, "stacks", folded=[{"ranks": [0], "stack": "earlier"}], suspect=None)
            others, loading = ranks_text([0, 2, 3]), Message.of("loading data in {}", "read (data.py:7)")
            why = Message.of("is {}, while {} are {}", loading, others, Message.of("in {}", "all_reduce"))
            suspect = {"node": 0, "rank": 1, "why": why}
            node.at(32, "stacks", folded=folded, suspect=suspect)
        for rank in (2 * number, 2 * number + 1):
            ended(node, 35 + rank, rank, code=143, signal=15, stopped=True)
        labels = f"rank {2 * number}, rank {2 * number + 1}"
        cause = Message.of("{} hung, and ma_boot stopped the run (--hang-action stop)", labels)
        node.at(40, "end", exit_code=124, by="ma_boot", cause=cause)
        files.append(node.text())
    return files


def many_nodes() -> list[str]:
    """Seventeen nodes of four ranks and one of seven, which is silent: strips, a band, and names only where there is room."""
    files = []
    for number in range(18):
        node = Writer(number, 10**12 + number * 10**10)
        node.phase("job", 0, 0.5 + number / 10)
        node.at(0, "job", name="orchids", nodes=18)
        node.phase("inputs", 2, 10 + number, "failed" if number == 5 else "done")
        node.phase("rank table", 3, 9)
        ranks = range(4 * number, 4 * number + (7 if number == 17 else 4))
        node.at(30, "phase-start", phase="run")
        started(node, 30, *ranks)
        node.at(50, "metrics", **measured(1, first=ranks[0]))
        node.at(60, "metrics", **measured(2, first=ranks[0]))
        node.at(70, "metrics", **measured(3, first=ranks[0]))
        node.at(90 + number, "dropped", lines=3)
        if number != 17:
            for rank in ranks:
                ours = rank != 40
                ended(
                    node, 95 + ours, rank, code=143 if ours else 3, signal=15 if ours else None, stopped=ours
                )
            by = "signal" if number != 10 else "training"
            node.at(
                100, "end", exit_code=143 if number != 10 else 3, by=by, cause="rank 40 ended with exit code 3", signal=15,
                label="rank 40", words="MemoryError: <b>",
            )  # fmt: skip
        files.append(node.text())
    return files


def rehearsed() -> list[str]:
    """A rehearsal of which one node was lost, as the rehearsal itself has noticed."""
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(0, "job", name="lilies", nodes=2, command="ma_boot -- sh train.sh")
    started(node, 2, 0)
    ended(node, 20, 0, code=143, signal=15, stopped=True)
    node.at(21, "end", exit_code=143, by="signal", cause=BY_SIGTERM, signal=15)
    job: list[dict[str, Any]] = [
        {"kind": "rehearsal", "command": "ma_boot rehearse --nodes 2 -- sh train.sh"},
        {"kind": "start", "label": "node 1", "log_file": "/log/node-1"},
        {"kind": "fault", "target": "node 1", "fault": "lost"},
        {"kind": "exit", "label": "node 1", "code": 137, "signal": 9, "stopped": False},
        {"kind": "job-end", "exit_code": 137, "by": "node", "label": "node 1", "cause": "node 1 was killed"},
    ]
    own = "".join(
        json.dumps({"time": BEGAN + 4 * at, **event, "node": None}) + "\n" for at, event in enumerate(job)
    )
    return [node.text(), own]


def refused() -> list[str]:
    """An error of ma_boot before the launch."""
    node = Writer(0, 10**12)
    node.phase("job", 0, 0.001)
    node.at(0, "job", name="", nodes=1)
    node.phase("inputs", 0.001, 0.007, "failed", "not in OBS")
    missing = to_boot_error(MissingInputs(["obs://b/a", "obs://b/c"]))
    node.at(0.008, "end", exit_code=66, by="ma_boot", cause=str(missing))
    return [node.text()]


def stopped() -> list[str]:
    """A stop from outside; a transfer of each direction goes on, and nothing is known of a second node's end."""
    node, other = Writer(0, 10**12), Writer(1, 10**12)
    node.phase("job", 0, 2)
    node.at(1, "job", name="", nodes=4)
    node.at(3, "phase-start", phase="fetching")
    node.at(4, "progress", direction="download", bytes_done=3000)
    node.at(5, "progress", direction="sideways", bytes_done=10)
    started(node, 6, 0, 1)
    node.at(9, "stop", reason=Message.of("{} received", "SIGTERM"))
    node.at(12, "end", exit_code=143, by="signal", cause=BY_SIGTERM, signal=15)
    other.phase("job", 1, 2)
    return [node.text(), other.text()]
