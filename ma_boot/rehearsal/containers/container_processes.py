"""Signals the processes of nodes that are containers, by the engine."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

from ma_boot.modelarts import PLATFORM_UID
from ma_boot.rehearsal.containers.engine_calls import JobContainers
from ma_boot.rehearsal.injection import StartedNode, StartedRank

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_KILL = 'kill -s "$1" -- "$2"'


class ContainerProcesses:
    """The processes of the containers of a job; PIDs of ranks are those inside."""

    def __init__(self, client: DockerClient, created: JobContainers) -> None:
        self._client = client
        self._created = created

    def exists(self, rank: StartedRank) -> bool:
        """Whether its container runs: of a killed node, no event tells of its end."""
        return str(self._container(rank.node).status) == "running"

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group; raises `OSError` if it has ended."""
        target = f"-{rank.pid}" if with_children else str(rank.pid)
        name = signal.Signals(signum).name[len("SIG") :]
        code, output = self._container(rank.node).exec_run(
            ["/bin/sh", "-c", _KILL, "sh", name, target], user=str(PLATFORM_UID)
        )
        if code != 0:
            raise OSError(output.decode(errors="replace").strip())

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to the first process of a container, if it has not ended."""
        from docker.errors import APIError

        with contextlib.suppress(APIError):
            self._container(node.node).kill(signum)

    def _container(self, node: int) -> Container:
        return self._client.containers.get(self._created.nodes[node].name)
