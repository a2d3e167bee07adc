"""The NPUs of this container and their network, asked with npu-smi and hccn_tool."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ma_boot.doctor import npu
from ma_boot.doctor.findings import ERROR, OK, WARNING, Finding, Patient
from ma_boot.errors import ConfigError
from ma_boot.modelarts import JobEnvironment, tool_address
from ma_boot.rank_table import Pod, RankTable, own_pod

SECONDS = 30.0  # npu-smi takes some while npus are busy
Ask = Callable[[Sequence[str]], Tuple[int, str]]


def devices(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Cards, their health, and the driver's version."""
    nodes = [path for path in glob.glob(os.path.join(patient.devices, "davinci*")) if path[-1].isdigit()]
    tool = _tool("npu-smi", patient)
    if tool is None:
        if nodes:
            yield Finding(
                "NPU", WARNING, f"{len(nodes)} devices, but no npu-smi on PATH",
                "the driver's mounts are missing: /usr/local/Ascend/driver, /usr/local/sbin/npu-smi",
            )  # fmt: skip
        else:
            yield Finding("NPU", OK, "no NPU here: neither devices in /dev nor npu-smi")
        return
    yield from _driver(patient)
    code, text = _run([tool, "info"], patient)
    cards = npu.cards(text)
    if code != 0 or not cards:
        yield Finding(
            "NPU", ERROR, f"npu-smi info tells of no card (exit code {code}): {_last(text)}",
            "the driver's libraries must be found: LD_LIBRARY_PATH has /usr/local/Ascend/driver/lib64/driver",
        )  # fmt: skip
        return
    ill = [f"NPU {card.number} ({card.name}): {card.health}" for card in cards if card.health != "OK"]
    if ill:
        yield Finding("NPU", ERROR, "\n".join(ill), "start the job on another node; report the card")
    yield Finding("NPU", OK, f"{len(cards)} x {cards[0].name}, npu-smi {npu.tool_version(text)}")
    if job.device_count is not None and job.device_count != len(cards):
        yield Finding(
            "NPU", WARNING, f"npu-smi shows {len(cards)} cards, MA_NUM_GPUS is {job.device_count}",
            "a process without a card cannot start: choose cards with --devices",
        )  # fmt: skip


def _driver(patient: Patient) -> Iterator[Finding]:
    file = os.path.join(patient.driver, "version.info")
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        yield Finding("driver", WARNING, f"{file}: {error.strerror}", "the driver of the node is not mounted")
        return
    version = re.search(r"^Version=(\S+)", text, re.MULTILINE)
    yield Finding("driver", OK, f"version {version.group(1) if version else 'unknown'} ({file})")


def card_network(
    patient: Patient, job: JobEnvironment, table: Optional[RankTable], configure: bool
) -> Iterator[Finding]:
    """The cards' network ports: their addresses against the table, their health, and the way to each peer.

    hccn_tool can only look for the address that a card is set to look for; with `configure` it is set to each
    peer in turn and set back afterwards, without it only what is set is told.
    """
    tool = _tool("hccn_tool", patient)
    if tool is None or table is None or not table.pods:
        return
    try:
        own = own_pod(table, job.instance_name, job.host_ip, job.node_rank)
    except ConfigError:  # told with the table
        return

    def ask(words: Sequence[str]) -> Tuple[int, str]:
        return _run([str(tool), *words], patient)

    yield from _addresses(own, ask)
    for place, device in enumerate(own.devices):
        yield _health(device.device_id, ask)
        if configure:
            yield from _ways(device.device_id, npu.peers(table, own)[place], ask)


def _addresses(own: Pod, ask: Ask) -> Iterator[Finding]:
    wrong: List[str] = []
    for device in own.devices:
        seen = tool_address(ask(["-i", device.device_id, "-ip", "-g"])[1])
        if device.device_ip and seen and seen != device.device_ip:
            wrong.append(f"card {device.device_id} has {seen}, the rank table says {device.device_ip}")
    if wrong:
        yield Finding(
            "card address", ERROR, "\n".join(wrong),
            "HCCL would report EI0014: the table belongs to another job's, or was made for other addresses",
        )  # fmt: skip


def _health(device: str, ask: Ask) -> Finding:
    code, text = ask(["-i", device, "-net_health", "-g"])
    health = npu.net_health(text)
    looks_for = npu.netdetect_address(ask(["-i", device, "-netdetect", "-g"])[1]) or "no address"
    seen = f"card {device}: {health or f'no answer (exit code {code}): {_last(text)}'}, looks for {looks_for}"
    if health == "Success":
        return Finding("card network", OK, seen)
    if health:
        return Finding(
            "card network", ERROR, seen, "check cable, switch and address of the card (hccn_tool -link -g)"
        )
    return Finding("card network", WARNING, seen, "hccn_tool needs root on some drivers")


def _ways(device: str, peers: Sequence[str], ask: Ask) -> Iterator[Finding]:
    before = npu.netdetect_address(ask(["-i", device, "-netdetect", "-g"])[1])
    answers: Dict[str, str] = {}
    try:
        for peer in peers:
            code, text = ask(["-i", device, "-netdetect", "-s", "address", peer])
            answers[peer] = (
                npu.net_health(ask(["-i", device, "-net_health", "-g"])[1])
                if code == 0
                else f"not set: {_last(text)}"
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
            "card peers",
            ERROR,
            "\n".join(lost),
            "the cards' networks must reach each other: same switch, same plane",
        )
    elif peers:
        yield Finding("card peers", OK, f"card {device} reaches {', '.join(peers)}")


def _tool(name: str, patient: Patient) -> Optional[str]:
    places = [patient.environ.get("PATH", ""), "/usr/local/sbin", os.path.join(patient.driver, "tools")]
    return shutil.which(name, path=os.pathsep.join(places))


def _run(argv: Sequence[str], patient: Patient) -> Tuple[int, str]:
    try:
        done = subprocess.run(
            argv, env=dict(patient.environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {SECONDS:.0f} s"
    except OSError as error:
        return 126, str(error.strerror)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "it printed nothing"
