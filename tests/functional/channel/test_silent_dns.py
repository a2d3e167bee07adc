"""Silent name server: look-ups time out, and nodes with addresses are reached at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirement import unavailable

SILENT = """
import socket, sys, time
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.errors import ConfigError
from ma_boot.platform.modelarts.network import address_of
from ma_boot.processes.signals import SignalInbox

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
began = time.monotonic()
with SignalInbox() as inbox:
"""
LOOK_UP = """
    try:
        address_of("no.example", 1.0, print, inbox)
    except ConfigError as error:
        print(error)
"""
REACH = """
    first, at = [], Address("127.77.1.1", 29402)
    nodes = [NodeChannel("9f1c0a2e55d04c7fa3c1", "job", node, 3, at, inbox) for node in range(3)]
    nodes[1].meet(at)
    nodes[2].meet(Address("no.example", 29402))
    for node in nodes[1:]:
        node.send("failed", {})
    while not first and time.monotonic() < began + 30:
        first = list(nodes[0].poll())
        time.sleep(0.01)
    print("heard", [(message.node, message.kind) for message in first])
    for node in nodes:
        node.close()
"""
END = """
print(f"{time.monotonic() - began:.2f}", flush=True)
import os
os._exit(0)
"""


def with_silent_dns(directory: Path, program: str) -> list[str]:
    """Returns the output of the program in a network with a silent name server; its seconds come last."""
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    mount = (
        f'ip link set lo up && mount --bind {directory}/resolv.conf /etc/resolv.conf || exit 99; exec "$@"'
    )
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ["unshare", *user, "--net", "--mount", "sh", "-c", mount, "sh"]
    done = subprocess.run(
        [*own, sys.executable, "-c", SILENT + program + END], capture_output=True, text=True, timeout=100
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        unavailable(f"no network namespace of its own: {done.stderr}")
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.timeout(120)
def test_a_look_up_ends_in_time(tmp_path: Path) -> None:
    line, seconds = with_silent_dns(tmp_path, LOOK_UP)
    assert line.startswith("the first host of VC_WORKER_HOSTS, no.example, has no address after 1 s")
    assert float(seconds) < 4


@pytest.mark.timeout(120)
def test_a_node_whose_first_node_has_an_address_does_not_wait_for_names(tmp_path: Path) -> None:
    line, seconds = with_silent_dns(tmp_path, REACH)
    assert line == "heard [(1, 'failed')]"
    assert float(seconds) < 4
