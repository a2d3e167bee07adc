"""HTTP server for Prometheus. Imported only with `--metrics-port`, as `prometheus_client` takes 60 ms."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ma_boot.node.observe.metrics.exposition import NodeState, metrics_of
from ma_boot.node.observe.metrics.record import Sample
from ma_boot.node.observe.metrics.spent import GrowingEvents

# Seconds without a byte of a client, after which its connection is closed.
CLIENT_SECONDS = 2.0


class Endpoint(Collector):
    """Serves the sample of a node that was published last, in threads of its own.

    `at` is `PORT`, for all interfaces, or `ADDRESS:PORT`. The use of the node's time comes from the file
    `events`, if there is one.

    Raises:
        OSError: the address or the port cannot be used.
    """

    def __init__(self, at: str, node: int = 0, events: Path | None = None) -> None:
        self._node = node
        self._events = GrowingEvents(events, node) if events is not None else None
        self._state: NodeState | None = None
        registry = CollectorRegistry()
        registry.register(self)
        address, _, port = at.rpartition(":")
        # `::` accepts connections of IPv4, too, where the kernel has both.
        everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        self._server, _ = start_http_server(int(port), address.strip("[]") or everywhere, registry)
        handler = cast(type, self._server.RequestHandlerClass)
        self._server.RequestHandlerClass = type("Handler", (handler,), {"timeout": CLIENT_SECONDS})
        # A client that goes away prints no traceback into the log of the job.
        self._server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]

    @property
    def at(self) -> str:
        """The address and the port, as in a URL; the port is the chosen one if 0 was asked for."""
        address, port = self._server.server_address[:2]
        return f"[{address!s}]:{port}" if ":" in str(address) else f"{address!s}:{port}"

    def publish(self, sample: Sample, slow: frozenset[int] = frozenset()) -> None:
        """Serves this sample from now on, with the ranks that were named as slow."""
        spent: Mapping[str, float] = {}
        # The user may have removed the file.
        with suppress(OSError):
            spent = self._events.time_spent() if self._events is not None else {}
        self._state = NodeState(sample, self._node, slow, spent)

    def collect(self) -> Iterator[Metric]:
        """The metrics of the last sample; called by the server for each request."""
        return metrics_of(self._state) if self._state is not None else iter(())

    def close(self) -> None:
        """Stops serving; takes up to 0.5 s, the polling interval of the server."""
        self._server.shutdown()
        self._server.server_close()
