"""The job's channel with up to 2,048 nodes of 8 ranks: what a failure, a hang and a restart cost node 0.

Node 0 is a process of its own, with the product's code alone: `JobPeers`, `StacksRound`. The other nodes
share a second process: each has its own `NodeChannel`, and answers as a node does. Simulated are their ranks:
what they tell of a hang is what py-spy has recorded of a real one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

import tables

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the made-up events of the tests

from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_round import StacksRound
from ma_boot.node.peers.failure_message import failures_body
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy
from ma_boot.platform.modelarts.job import read_job
from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.cause import Cause
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult
from tests.synthetic import synthetic_job

TOKEN, JOB, EACH = "0123456789abcdef-of-the-benchmark", "ma-job-scale", 8
NODES = (32, 256, 2048)
STAGES = {"failure": "a failure", "hang": "a hang, with all stacks", "restart": "a restart is agreed"}
STACKS = Path(__file__).parents[1] / "tests" / "functional" / "channel" / "stacks"
DEADLINE = 120.0
HEAD = """\
| nodes | what | seconds until all nodes know | CPU of node 0 (s) | memory of node 0 (MiB) | messages |
|---|---|---|---|---|---|"""

REPORT_HEAD = """\
| event files of `ma_boot report` | seconds | CPU (s) | memory (MiB) | page (MB) |
|---|---|---|---|---|"""


class Silent(Journal):
    """A journal that neither prints nor writes."""

    def __init__(self) -> None:
        pass

    def say(self, text: str) -> None:
        """Prints nothing."""

    def event(self, kind: str, **fields: Any) -> None:
        """Writes nothing."""


class NodeZero:
    """Node 0 of the job, which answers requests in this process."""

    def __init__(self, nodes: int, port: int, inbox: SignalInbox, place: str) -> None:
        self.nodes, self.inbox = nodes, inbox
        environ = {
            "MA_NUM_HOSTS": str(nodes), "VC_TASK_INDEX": "0", "MA_VJ_NAME": JOB,
            "VC_WORKER_HOSTS": ",".join(["127.0.0.1"] * nodes), "HOME": place,
        }  # fmt: skip
        self.peers = JobPeers(TOKEN, inbox, Silent())
        self.peers.open(read_job(environ, "host"), port)
        self.peers.restarts.begin(RestartPolicy(budget=1))

    def failure(self) -> None:
        """Hears of a failure, and tells the job's cause."""
        self._look_until(lambda: bool(self.peers.check([], False)))

    def hang(self) -> None:
        """Asks all nodes for their stacks, and tells who is suspected."""
        self.peers.tell("hanging", {})
        stacks = StacksRound([], {}, self.peers, self.inbox)

        def finished() -> bool:
            for message in self.peers.heard():
                stacks.receive(message)
            return stacks.finished()

        self._look_until(finished)
        stacks.report()

    def restart(self) -> None:
        """Agrees with all nodes that the job starts again."""
        self.peers.restarts.agree(AttemptEnd(1), RunResult(()))

    def _look_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.inbox.wait(0.05)
            self.peers.check([], False)


class AllOthers:
    """All nodes but node 0, in this process."""

    def __init__(self, nodes: int, port: int, inbox: SignalInbox) -> None:
        self.inbox, self.messages = inbox, 0
        at = Address("127.0.0.1", port)
        self.channels = [NodeChannel(TOKEN, JOB, node, nodes, at, inbox) for node in range(1, nodes)]
        for channel in self.channels:
            channel.meet(at)
        self._look_until(lambda: all(channel.connected for channel in self.channels))

    def failure(self) -> None:
        """The last node tells of a failure; until all know the cause."""
        last = self.channels[-1]
        failure = Cause(last.node, last.node * EACH, 1, "ValueError: bad label 91", time.time())
        self._tell(last, "failed", {"attempt": 1, **failures_body([failure])})
        self._until_all_know("cause")

    def hang(self) -> None:
        """Each node tells the stacks of its ranks; until all know who is suspected."""
        usual = [(STACKS / f"usual-{number}.txt").read_text() for number in (0, 2, 3)]
        odd = (STACKS / "loader.txt").read_text()

        def answer(channel: NodeChannel) -> None:
            ranks = range(channel.node * EACH, (channel.node + 1) * EACH)
            rows = [
                RankAtHang(rank, channel.node, odd if rank == 99 else usual[rank % 3], 9.0) for rank in ranks
            ]
            self._tell(channel, "stacks", {"ranks": [row._asdict() for row in rows]})

        self._until_all_know("verdict", hanging=answer)

    def restart(self) -> None:
        """Each node tells that it has stopped; until all know that the job starts again."""
        for channel in self.channels:
            self._tell(channel, "stopped", AttemptEnd(1)._asdict())
        self._until_all_know("go")

    def _tell(self, channel: NodeChannel, kind: str, body: Mapping[str, Any]) -> None:
        self.messages += 1
        channel.send(kind, body)

    def _until_all_know(self, kind: str, **answers: Callable[[NodeChannel], None]) -> None:
        unknowing = set(self.channels)

        def all_know() -> bool:
            for channel in [*unknowing]:
                for message in channel.poll():
                    self.messages += 1
                    if message.kind in answers:
                        answers[message.kind](channel)
                    if message.kind == kind:
                        unknowing.discard(channel)
            return not unknowing

        self._look_until(all_know)

    def _look_until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.channels) + 1} nodes: no end within {DEADLINE:.0f} s")
            self.inbox.wait(0.05)


def serve(role: str, nodes: int, port: int) -> None:
    """One of the two processes: does what each line of standard input asks for, and answers with figures."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # 2,048 nodes need 8,200 descriptors
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with SignalInbox() as inbox, tempfile.TemporaryDirectory() as place:
        side = NodeZero(nodes, port, inbox, place) if role == "zero" else AllOthers(nodes, port, inbox)
        print("ready", flush=True)
        for line in sys.stdin:
            began, cpu = time.monotonic(), time.process_time()
            getattr(side, line.strip())()
            used = resource.getrusage(resource.RUSAGE_SELF)
            answer = {
                "seconds": time.monotonic() - began,
                "cpu": time.process_time() - cpu,
                "memory": used.ru_maxrss >> 10,
                "messages": getattr(side, "messages", 0),
            }
            print(json.dumps(answer), flush=True)
        os._exit(0)  # the threads of all channels


class Side:
    """One of the two processes, seen from outside."""

    def __init__(self, role: str, nodes: int, port: int) -> None:
        words = [sys.executable, __file__, "--role", role, "--nodes", str(nodes), "--port", str(port)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, what: str) -> None:
        """Lets it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()


def rows(nodes: int) -> Iterator[str]:
    """The rows of a job of this size."""
    port = free_port()
    zero = Side("zero", nodes, port)
    zero.answer()
    began = time.monotonic()
    others = Side("others", nodes, port)
    others.answer()
    print(f"{nodes} nodes have met after {time.monotonic() - began:.1f} s", flush=True)
    messages = 0
    for what, name in STAGES.items():
        for side in (zero, others):
            side.ask(what)
        of_others, of_zero = json.loads(others.answer()), json.loads(zero.answer())
        sent, messages = of_others["messages"] - messages, of_others["messages"]
        memory, cpu, seconds = of_zero["memory"], of_zero["cpu"], of_others["seconds"]
        yield f"| {nodes:,} | {name} | {seconds:.2f} | {cpu:.2f} | {memory} | {sent:,} |"
    for side in (zero, others):
        side.process.kill()
        side.process.wait()


def report(nodes: int) -> str:
    """The row of `ma_boot report` over the events of all nodes of a job, of which a rank has failed."""
    with tempfile.TemporaryDirectory() as place:
        for node, text in enumerate(synthetic_job(nodes, EACH, fails=nodes * EACH // 2)):
            Path(place, f"{JOB}-node-{node}-events.jsonl").write_text(text)
        page = Path(place, "job.html")
        began = time.monotonic()
        words = [sys.executable, "-m", "ma_boot", "report", place, "--output", str(page)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        seconds, megabytes = time.monotonic() - began, page.stat().st_size / 1e6
    cpu = used.ru_utime + used.ru_stime
    return f"| {nodes:,} | {seconds:.1f} | {cpu:.1f} | {used.ru_maxrss >> 10} | {megabytes:.2f} |"


def main() -> None:
    """Writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=["zero", "others"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=int, action="append", help="nodes of a job (32, 256, 2048)")
    parser.add_argument("--print", action="store_true", help="leave the pages as they are")
    options = parser.parse_args()
    if options.role:
        serve(options.role, options.nodes[0], options.port)
        return
    table, reports = [HEAD], [REPORT_HEAD]
    for nodes in options.nodes or NODES:
        for row in rows(nodes):
            print(row, flush=True)
            table.append(row)
        reports.append(report(nodes))
        print(reports[-1], flush=True)
    if not options.print:
        tables.write("scale", "\n".join([*table, "", *reports]))


if __name__ == "__main__":
    main()
