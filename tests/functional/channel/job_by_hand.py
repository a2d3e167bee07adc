"""The nodes of a job as processes of this machine, without a platform that would end the others when one ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.orphan_guard import descendants
from tests.functional.channel.nodes import TOKEN
from tests.functional.node import Booting, Ended, Node, events_in, eventually

NOTICED_SECONDS = 10.0  # after the death of a node, until the others end
STEPS = "import os, sys, time\nrank, attempt = int(os.environ['RANK']), os.environ.get('MABOOT_ATTEMPT')\n"


class JobByHand:
    """A job of `nodes` with one rank each, which `train` describes in Python; `start` starts all of them."""

    def __init__(self, root: Path, nodes: int, train: Sequence[str], **variables: str) -> None:
        self.port = free_port()
        port, hosts = str(self.port), ",".join(f"127.79.0.{node + 1}" for node in range(nodes))
        self.root = root
        self.nodes: list[Node] = []
        self.running: list[Booting] = []
        for number in range(nodes):
            node = Node(root / f"node-{number}", 1, index=number)
            node.variables.update(
                {
                    "RANK_TABLE_FILE": "",
                    "MA_NUM_HOSTS": str(nodes),
                    "VC_TASK_INDEX": str(number),
                    "VC_WORKER_HOSTS": hosts,
                    "MABOOT_CHANNEL_PORT": port,
                    "MABOOT_JOB_TOKEN": TOKEN,
                    "MABOOT_START_SECONDS": "0",
                    **variables,
                }
            )
            (node.home / "train.py").write_text(STEPS + "\n".join(train))
            self.nodes.append(node)

    def start(self, *options: str) -> None:
        """Starts all nodes; returns when all ranks run and all nodes have met."""
        for node in self.nodes:
            self.running.append(node.start("--rendezvous", "torch", *options, "train.py"))
        eventually(
            lambda: all(self.events(node, "first-output") for node in self.others()), "all ranks run", 20
        )
        eventually(lambda: self._connections() == len(self.nodes) - 1, "all nodes have met", 20)

    def _connections(self) -> int:
        """The connections of node 0's channel, by /proc: `01` is ESTABLISHED."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[1].endswith(f":{self.port:04X}") and row[3] == "01" for row in rows)

    def others(self, *but: int) -> list[int]:
        """The numbers of all nodes, without some."""
        return [number for number in range(len(self.nodes)) if number not in but]

    def events(self, node: int, kind: str) -> list[dict[str, Any]]:
        """The events of a node."""
        files = self.nodes[node].log_dir.glob("*-events.jsonl")
        return [event for file in files for event in events_in(file) if event["kind"] == kind]

    def kill(self, node: int) -> float:
        """SIGKILL to a node's ma_boot, whose guard ends the rest; returns when that was."""
        process = self.running[node].process
        process.kill()
        at = time.monotonic()
        process.communicate()
        return at

    def ends(self, since: float, *nodes: int) -> dict[int, Ended]:
        """Returns the ends of these nodes, each within `NOTICED_SECONDS` and a moment for its end."""
        ended = {node: self.running[node].end() for node in nodes}
        assert time.monotonic() - since < NOTICED_SECONDS + 2, {
            node: end.output for node, end in ended.items()
        }
        return ended

    def close(self) -> None:
        """Ends what still runs."""
        for booting in self.running:
            if booting.process.poll() is None:
                for pid in (*descendants(booting.process.pid, {}), booting.process.pid):
                    with suppress(ProcessLookupError):  # it has ended meanwhile
                        os.kill(pid, 9)
                booting.process.wait()
            if booting.process.stdout is not None:
                booting.process.stdout.close()
