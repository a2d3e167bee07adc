"""Events of a made-up job with any number of nodes and ranks, as `ma_boot` would have written them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from ma_boot.wording import coded

BEGAN = 1_760_000_000.0


@dataclass
class Writer:
    """The event file of one node; times are in seconds since the start of the job."""

    node: int
    clock: int  # the node's monotonic clock, in nanoseconds, when the job starts
    entries: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def at(self, time: float, kind: str, **fields: Any) -> None:
        """Adds an event."""
        stamp = {"time": BEGAN + time, "monotonic_ns": self.ns(time), "kind": kind}
        self.entries.append((time, coded({**stamp, **fields, "node": self.node})))

    def ns(self, time: float) -> int:
        """The time on the node's monotonic clock."""
        return self.clock + int(time * 1e9)

    def phase(self, name: str, start: float, end: float, outcome: str = "done", detail: str = "") -> None:
        """Adds the two events of a phase."""
        self.at(start, "phase-start", phase=name)
        self.at(end, "phase-end", phase=name, seconds=end - start, outcome=outcome, detail=detail)

    def text(self) -> str:
        """The content of the file."""
        ordered = sorted(self.entries, key=lambda entry: entry[0])
        return "".join(json.dumps(entry) + "\n" for _, entry in ordered)


def synthetic_job(nodes: int, per_node: int, fails: int | None = None, seconds: float = 600.0) -> list[str]:
    """The event files of a job, by node; near the end the rank `fails` gets SIGKILL, all others SIGTERM."""
    chance = random.Random(5)
    return [_node(number, nodes, per_node, fails, seconds, chance) for number in range(nodes)]


def _node(
    number: int, nodes: int, per_node: int, fails: int | None, seconds: float, chance: random.Random
) -> str:
    node = Writer(number, 10**13 + number * 10**11)
    node.phase("job", 0.0, 0.05, detail=f"node {number} of {nodes}")
    node.at(
        0.02, "job", name="modelarts-job-synthetic", nodes=nodes, host=f"worker-{number}", start_count=1,
        schedule_count=1,
    )  # fmt: skip
    node.phase("environment", 0.1, 3.1)
    arrived = 3.2 + 40 + 30 * chance.random()
    _download(node, 3.2, arrived)
    node.phase("rank table", 3.2, 20 + 5 * chance.random())
    node.phase("launch", arrived, arrived + 0.4, detail=f"{per_node} processes")
    ranks = range(number * per_node, (number + 1) * per_node)
    here = fails in ranks
    end = _run(node, ranks, arrived + 0.5, seconds, fails, chance)
    outcome = "done" if fails is None else "failed" if here else "stopped"
    node.phase("run", arrived + 0.4, end, outcome)
    home = end + 10 + 20 * chance.random()
    node.phase("outputs", end, home)
    node.at(home - 0.01, "transfer", direction="upload", files=12, bytes=1_300_000_000, seconds=home - end)
    code, by = (0, None) if fails is None else (137, "training") if here else (143, "signal")
    label = f"rank {fails}" if here else None
    cause = "success" if fails is None else f"{label} was killed by SIGKILL" if here else "stopped by SIGTERM"
    signal = 15 if by == "signal" else None
    node.at(home + 0.1, "end", exit_code=code, by=by, cause=cause, label=label, signal=signal)
    return node.text()


def _download(node: Writer, start: float, end: float) -> None:
    size = 8_000_000_000
    for step in range(1, 40):
        done = int(size * (step / 40) ** 1.3)
        at = start + (end - start) * step / 40
        node.at(at, "progress", direction="download", files_done=step, files=40, bytes_done=done, bytes=size)
    node.at(end - 0.01, "transfer", direction="download", files=40, bytes=size, seconds=end - start)
    node.phase("inputs", start, end, detail="40 files, 8000.0 MB")


def _run(
    node: Writer, ranks: range, start: float, seconds: float, fails: int | None, chance: random.Random
) -> float:
    """The processes; returns when the last one ended."""
    last = seconds
    for rank in ranks:
        who = {"label": f"rank {rank}", "rank": rank}
        node.at(start, "start", **who, pid=100 + rank, cores=[], log_file=f"/log/proc-rank-{rank}.txt")
        spoke = start + 8 + 6 * chance.random()
        node.at(spoke, "first-output", **who, first_ns=node.ns(spoke))
        end, code, stopped = seconds + 4 * chance.random(), 0, False
        if fails is not None:
            stopped = rank != fails
            end, code = (end + 6, 143) if stopped else (seconds, 137)
        node.at(
            end, "exit", **who, pid=100 + rank, code=code, signal=code - 128 if code else None,
            seconds=end - start, ended_ns=node.ns(end), stopped=stopped, oom=None,
        )  # fmt: skip
        last = max(last, end)
    if fails is not None:
        reason = f"rank {fails} was killed by SIGKILL" if fails in ranks else "SIGTERM received"
        node.at(seconds + 0.5, "stop", reason=reason, running=[])
    return last


def measured_job(nodes: int, per_node: int, slow: int | None = None, fails: int | None = None) -> list[str]:
    """The event files of a made-up job with metrics each ten seconds; the rank `slow` gets slower."""
    chance = random.Random(3)
    files = []
    for number, text in enumerate(synthetic_job(nodes, per_node, fails)):
        node = Writer(number, 10**13 + number * 10**11)
        ranks = list(range(number * per_node, (number + 1) * per_node))
        for turn in range(8, 60):
            node.at(turn * 10, "metrics", **_measured(ranks, turn, slow, chance))
        if slow in ranks:
            node.at(340, "slow rank", rank=slow, step_time=0.75, others=0.52)
        files.append(text + node.text())
    return files


def _measured(ranks: list[int], turn: int, slow: int | None, chance: random.Random) -> dict[str, Any]:
    def each(value: float, spread: float = 0.0) -> list[float]:
        return [round(value + spread * chance.random(), 3) for _ in ranks]

    steps = [
        40.0
        if turn == 8
        else round((0.5 + 0.05 * chance.random()) * (1.5 if rank == slow and turn > 30 else 1), 3)
        for rank in ranks
    ]
    cards = list(range(len(ranks)))
    return {
        "seconds": 10.0,
        "ranks": {
            "rank": ranks, "cpu": each(0.9, 0.2), "rss": each(2000 + 10 * turn, 100), "threads": [60 for _ in ranks],
            "read": each(0, 100), "written": each(0), "step": [20 * turn for _ in ranks], "step_time": steps,
            "loss": each(2.3 / (1 + turn / 10), 0.05), "values": {"lr": each(turn / 10_000)},
        },
        "cards": {
            "card": cards, "kind": "npu", "utilisation": each(95, 5), "memory": each(30_000 + turn),
            "memory_total": [32_768 for _ in cards], "temperature": each(55 + turn // 10), "power": each(300, 10),
            "health": ["OK" for _ in cards], "link": ["UP" for _ in cards],
        },
        "host": {
            "cpu": 4.4, "cores": 64, "memory": [120_000 + 100 * turn, 512_000],
            "disks": {"/cache": [1200 + 3 * turn, 50_000], "/dev/shm": [10, 2048]}, "received": 1.2, "sent": None,
        },
    }  # fmt: skip
