"""Checks of the NPUs of this container and their network, with npu-smi and hccn_tool."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable

from ma_boot.node.doctor.container import System
from ma_boot.node.observe.metrics.card_tables import parse_npu_rows
from ma_boot.platform.modelarts.card_network import parse_address
from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.rank_table import Pod, RankTable
from ma_boot.processes.tool import ToolResult, run_tool

# The formats are those in Huawei's documents: hccn_tool's `-net_health -g` and `-netdetect -g` (also in
# MindSpore's guide to distributed training); the rows of npu-smi's table are parsed by `parse_npu_rows`.
_VERSION = r"(?m)^\|\s*npu-smi\s+(\S+)"
# The status is `Success`, `Fault` or the like.
_HEALTH = r"(?mi)net health status:\s*(.+?)\s*$"
_NETDETECT = r"(?i)netdetect address:\s*([0-9a-fA-F.:]+)"
_DRIVER_VERSION = r"(?m)^Version=(\S+)"


def _first(pattern: str, text: str) -> str:
    """Returns the group of the first match; empty without one."""
    match = re.search(pattern, text)
    return match.group(1) if match else ""


# Runs hccn_tool with these arguments.
Ask = Callable[[Sequence[str]], ToolResult]


def check_devices(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks the cards, their health and the driver's version."""
    nodes = [path for path in glob.glob(os.path.join(system.devices, "davinci*")) if path[-1].isdigit()]
    tool = _tool("npu-smi", system)
    if tool is None:
        if nodes:
            yield Finding(
                "NPU", WARNING, f"{len(nodes)} devices, but no npu-smi on PATH",
                "mount the driver: /usr/local/Ascend/driver and /usr/local/sbin/npu-smi are missing",
            )  # fmt: skip
        else:
            yield Finding("NPU", OK, "no NPU: neither devices in /dev nor npu-smi")
        return
    yield from _driver(system)
    code, text = _run([tool, "info"], system)
    cards = parse_npu_rows(text)
    if code != 0 or not cards:
        yield Finding(
            "NPU", ERROR, f"npu-smi info shows no card (exit code {code}): {_last(text)}",
            "add /usr/local/Ascend/driver/lib64/driver to LD_LIBRARY_PATH, where the driver's libraries are",
        )  # fmt: skip
        return
    faulty = [
        f"NPU {card.npu} ({card.name}): {card.sample.health}" for card in cards if card.sample.health != "OK"
    ]
    if faulty:
        yield Finding("NPU", ERROR, "\n".join(faulty), "run the job on another node, and report the card")
    yield Finding("NPU", OK, f"{len(cards)} x {cards[0].name}, npu-smi {_first(_VERSION, text) or 'unknown'}")
    if job.device_count is not None and job.device_count != len(cards):
        yield Finding(
            "NPU", WARNING, f"npu-smi shows {len(cards)} cards, MA_NUM_GPUS is {job.device_count}",
            "select cards with --devices: a process without a card cannot start",
        )  # fmt: skip


def _driver(system: System) -> Iterator[Finding]:
    file = Path(system.driver, "version.info")
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield Finding("driver", WARNING, f"{file}: {error.strerror}", "mount the driver of the node")
        return
    yield Finding("driver", OK, f"version {_first(_DRIVER_VERSION, text) or 'unknown'} ({file})")


def check_card_network(
    system: System, own: Pod | None, table: RankTable | None, configure: bool
) -> Iterator[Finding]:
    """Checks the cards' network ports: their addresses in the table, their health, and their peers.

    The peers of a card are those with the same index in the other pods: the pairs that MindSpore's guide
    recommends to check before a job on several machines. `own` is this container in the table. hccn_tool
    checks the connection to the one address that a card is configured with. With `configure` each peer is
    configured in turn, and the previous address restored; without it the configured address is shown.
    """
    tool = _tool("hccn_tool", system)
    if tool is None or table is None or own is None:
        return

    def ask(words: Sequence[str]) -> ToolResult:
        return _run([str(tool), *words], system)

    yield from _addresses(own, ask)
    for place, device in enumerate(own.devices):
        yield _health(device.device_id, ask)
        if configure:
            others = [pod.devices[place:][:1] for pod in table.pods if pod is not own]
            peers = [device.device_ip for devices in others for device in devices if device.device_ip]
            yield from _connections(device.device_id, peers, ask)


def _addresses(own: Pod, ask: Ask) -> Iterator[Finding]:
    wrong: list[str] = []
    for device in own.devices:
        seen = parse_address(ask(["-i", device.device_id, "-ip", "-g"])[1])
        if device.device_ip and seen and seen != device.device_ip:
            wrong.append(f"card {device.device_id} has {seen}, but {device.device_ip} in the rank table")
    if wrong:
        yield Finding(
            "card address", ERROR, "\n".join(wrong),
            "resubmit the job: the table is another job's or outdated, and HCCL would report EI0014",
        )  # fmt: skip


def _health(device: str, ask: Ask) -> Finding:
    code, text = ask(["-i", device, "-net_health", "-g"])
    health = _first(_HEALTH, text)
    peer = _first(_NETDETECT, ask(["-i", device, "-netdetect", "-g"])[1]) or "no address"
    seen = f"card {device}: {health or f'no answer (exit code {code}): {_last(text)}'}, netdetect {peer}"
    if health == "Success":
        return Finding("card network", OK, seen)
    if health:
        return Finding(
            "card network", ERROR, seen, "check cable, switch and address of the card (hccn_tool -link -g)"
        )
    return Finding("card network", WARNING, seen, "try again as root: some drivers require it for hccn_tool")


def _connections(device: str, peers: Sequence[str], ask: Ask) -> Iterator[Finding]:
    before = _first(_NETDETECT, ask(["-i", device, "-netdetect", "-g"])[1])
    answers: dict[str, str] = {}
    try:
        for peer in peers:
            code, text = ask(["-i", device, "-netdetect", "-s", "address", peer])
            answers[peer] = (
                _first(_HEALTH, ask(["-i", device, "-net_health", "-g"])[1])
                if code == 0
                else f"not configured: {_last(text)}"
            )
    finally:
        if before and peers:
            ask(["-i", device, "-netdetect", "-s", "address", before])
    lost = [
        f"card {device} to {peer}: {answer or 'no answer'}"
        for peer, answer in answers.items()
        if answer != "Success"
    ]
    if lost:
        yield Finding(
            "card peers", ERROR, "\n".join(lost), "connect the cards' networks: same switch, same plane"
        )
    elif peers:
        yield Finding("card peers", OK, f"card {device} reaches {', '.join(peers)}")


def _tool(name: str, system: System) -> str | None:
    places = [system.environ.get("PATH", ""), "/usr/local/sbin", os.path.join(system.driver, "tools")]
    return shutil.which(name, path=os.pathsep.join(places))


def _run(argv: Sequence[str], system: System) -> ToolResult:
    return run_tool(argv, system.environ, with_stderr=True)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no output"
