"""This machine: its addresses, cards and cores, by `/dev`, `/proc`, `/sys`, hccn_tool and npu-smi."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ma_boot.errors import ConfigError, InputMissing
from ma_boot.platform.rank_table import Identity, SuperPod
from ma_boot.platform.recognition.modelarts import TABLE_NAMES, TABLE_VARIABLES
from ma_boot.platform.recognition.place import Around
from ma_boot.processes.control_group import file_text

_CARD = "davinci"
_LOCAL = r"\|-- (\S+)\n\s+/32 host LOCAL"

_TABLES = ("/user/config/jobstart_hccl.json", "/user/serverid/devindex/config/hccl.json")


def look_around(environ: Mapping[str, str], hostname: str, root: str = "/") -> Around:
    """What is around this node: Volcano's files of hosts, places of rank tables, cards."""
    hosts = _hosts_of_tasks(os.path.join(root, "etc", "volcano"))
    tables_given = (environ.get(name, "").strip() for name in TABLE_VARIABLES)
    files = (os.path.join(table, name) for table in tables_given if table for name in TABLE_NAMES)
    places = (os.path.join(root, table.lstrip("/")) for table in _TABLES)
    tables = (
        *(file for file in files if os.path.isfile(file)),
        *(place for place in places if os.path.isdir(os.path.dirname(place))),
    )
    return Around(environ, hostname, hosts, tables, own_devices(os.path.join(root, "dev")))


def _hosts_of_tasks(directory: str) -> dict[str, tuple[str, ...]]:
    """The names of hosts in each file `TASK.host`, by task."""
    try:
        files = [name for name in sorted(os.listdir(directory)) if name.endswith(".host")]
    except OSError:
        return {}
    return {name[: -len(".host")]: tuple(file_text(Path(directory, name)).split()) for name in files}


def with_machine(who: Identity) -> Identity:
    """The identity, with the addresses and cards of this machine."""
    known = (*who.addresses, *own_addresses())
    return who._replace(addresses=tuple(dict.fromkeys(known)), devices=own_devices())


def own_addresses(proc: str = "/proc") -> tuple[str, ...]:
    """The addresses of this container's network interfaces, without those of loopback and of links."""
    texts: list[str] = re.findall(_LOCAL, file_text(Path(proc, "net", "fib_trie")))
    for line in file_text(Path(proc, "net", "if_inet6")).splitlines():
        digits = line.split()[0]
        texts.append(":".join(digits[i : i + 4] for i in range(0, 32, 4)))
    addresses = [ipaddress.ip_address(text) for text in dict.fromkeys(texts)]
    return tuple(str(address) for address in addresses if not (address.is_loopback or address.is_link_local))


def own_devices(dev: str = "/dev") -> frozenset[int]:
    """The physical numbers of this container's cards; empty if it has none."""
    try:
        names = os.listdir(dev)
    except OSError:
        return frozenset()
    numbers = [name[len(_CARD) :] for name in names if name.startswith(_CARD)]
    return frozenset(int(number) for number in numbers if number.isdecimal())  # davinci_manager is no card


TOOL_SECONDS = 30.0  # npu-smi is slow while the NPUs are busy
MOST_DEVICES = 16  # of a server: A3
_CONF_ADDRESS = r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$"
_TOOL_ADDRESS = r"ipaddr\s*:\s*(\S+)"
_SDID = r"(?m)^\s*SDID\s*:\s*(\d+)\s*$"
_SUPER_POD = r"(?m)^\s*Super Pod ID\s*:\s*(\S+)\s*$"


def card_addresses(devices: Sequence[int], conf: Path) -> dict[int, str]:
    """The addresses by physical device, of `devices` only if it is not empty and hccn_tool is on PATH.

    Without hccn_tool they are read from `conf`, in lines such as `address_0=192.98.92.100`. Raises
    `ConfigError` if the tool does not answer, `InputMissing` if there is neither the tool nor the file.
    """
    tool = shutil.which("hccn_tool")
    if tool is not None:
        asked = {
            device: _ask(tool, "-i", str(device), "-ip", "-g") for device in devices or range(MOST_DEVICES)
        }
        addresses = {device: tool_address(output) for device, output in asked.items()}
        return {device: address for device, address in addresses.items() if address}
    try:
        text = conf.read_text(encoding="utf-8")
    except OSError as error:
        raise InputMissing(f"no hccn_tool on PATH, and {conf}: {error.strerror}") from error
    return {int(device): address for device, address in re.findall(_CONF_ADDRESS, text)}


def tool_address(output: str) -> str:
    """The address that `hccn_tool -i N -ip -g` prints (`ipaddr:192.98.92.100`); empty if there is none."""
    match = re.search(_TOOL_ADDRESS, output)
    return match.group(1) if match else ""


def own_super_pod(devices: Sequence[int]) -> SuperPod:
    """The super pod with the cards of this machine, by physical number: `devices`, or all if it is empty.

    Raises `InputMissing` without npu-smi, `ConfigError` with what npu-smi said if that is no super pod.
    """
    tool = shutil.which("npu-smi")
    if tool is None:
        raise InputMissing("no npu-smi on PATH: it tells the super pod, and the SDID of each card in it")
    chips = chips_in(_ask(tool, "info", "-m"))
    missing = [device for device in devices if device not in chips]
    if missing or not chips:
        what = ", ".join(map(str, missing)) or "any card"
        raise ConfigError(f"npu-smi info -m does not show {what}; found: {sorted(chips)}")
    places = {device: _place(tool, *chips[device]) for device in devices or sorted(chips)}
    pods = sorted({pod for _, pod in places.values()})
    if len(pods) > 1:
        raise ConfigError(f"the cards are in the super pods {', '.join(pods)}: expected one")
    return SuperPod(pods[0], {device: sdid for device, (sdid, _) in places.items()})


def chips_in(text: str) -> dict[int, tuple[str, str]]:
    """NPU and chip of each card by its physical number, from `npu-smi info -m`.

    That is the column `Chip Phy-ID`, or `Chip Logic ID` where a release has no other.
    """
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if "NPU ID" in line), len(lines))
    columns = re.split(r"\s{2,}", lines[head].strip()) if lines[head:] else []
    names = ["NPU ID", "Chip ID", "Chip Phy-ID" if "Chip Phy-ID" in columns else "Chip Logic ID"]
    if not set(names) <= set(columns):
        return {}
    places = [columns.index(name) for name in names]
    chips = {}
    for words in map(str.split, lines[head + 1 :]):
        values = [words[place] for place in places if place < len(words)]
        if len(values) == len(places) and all(map(str.isdecimal, values)):  # an MCU has no number
            chips[int(values[2])] = (values[0], values[1])
    return chips


def _place(tool: str, npu: str, chip: str) -> tuple[str, str]:
    """The SDID of a chip, and the id of its super pod."""
    words = ("info", "-t", "spod-info", "-i", npu, "-c", chip)
    text = _ask(tool, *words)
    sdid, pod = re.search(_SDID, text), re.search(_SUPER_POD, text)
    if sdid is None or pod is None:
        shown = " ".join(text.split())[:200] or "nothing"
        raise ConfigError(
            f"npu-smi {' '.join(words)}: expected SDID and Super Pod ID of an A3, found {shown}"
        )
    return sdid.group(1), pod.group(1)


def _ask(tool: str, *words: str) -> str:
    argv = [tool, *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{' '.join(argv)} did not answer within {TOOL_SECONDS:.0f} s") from error
    return done.stdout


_HUAWEI = "0x19e5"  # PCI vendor
_ACCELERATOR = "0x1200"  # PCI class "processing accelerator", without the interface byte


class Machine(NamedTuple):
    """The cores that this process may use, those of each NUMA node, and the NUMA node of each NPU.

    `device_numa` is in the order of PCI addresses, which is the order of physical device ids; -1 is unknown.
    """

    allowed: frozenset[int]
    numa: Mapping[int, frozenset[int]]
    device_numa: tuple[int, ...]


def bound_cores(mode: str, machine: Machine, device_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The cores of each local rank, `()` for one that is not bound; `device_ids` are the physical devices.

    Mode "equal" assigns contiguous shares of the allowed cores, as the scripts of MindSpore's model zoo do
    with `taskset`. "numa" divides the allowed cores of each NUMA node among the ranks whose devices are
    attached to it; if a device's NUMA node is unknown, the ranks are distributed evenly over the nodes. No
    rank is bound if there are fewer cores than ranks.
    """
    count = len(device_ids)
    if len(machine.allowed) < count:
        return ((),) * count
    if mode == "equal":
        return _shares(sorted(machine.allowed), count)
    nodes = _nodes(machine, device_ids)
    groups: dict[int, list[int]] = {}
    for local_rank, node in enumerate(nodes):
        groups.setdefault(node, []).append(local_rank)
    bound: list[tuple[int, ...]] = [()] * count
    for node, ranks in groups.items():
        cores = sorted(machine.numa.get(node, frozenset()) & machine.allowed)
        if len(cores) < len(ranks):
            return _shares(sorted(machine.allowed), count)
        for local_rank, share in zip(ranks, _shares(cores, len(ranks))):
            bound[local_rank] = share
    return tuple(bound)


def _nodes(machine: Machine, device_ids: Sequence[int]) -> list[int]:
    """The NUMA node of each local rank."""
    known = machine.device_numa
    if all(device < len(known) and known[device] >= 0 for device in device_ids):
        return [known[device] for device in device_ids]
    usable = sorted(node for node, cores in machine.numa.items() if cores & machine.allowed) or [0]
    count = len(device_ids)
    return [usable[local_rank * len(usable) // count] for local_rank in range(count)]


def _shares(cores: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    each = len(cores) // count
    return tuple(tuple(cores[i * each : (i + 1) * each]) for i in range(count))


def read_machine(allowed: frozenset[int], sys: Path = Path("/sys")) -> Machine:
    """This node's cores and devices as far as `/sys` shows them; `allowed` are those of this process."""
    numa = {
        int(directory.name[4:]): cores_of(file_text(directory / "cpulist").strip())
        for directory in sys.glob("devices/system/node/node[0-9]*")
    }
    devices = [
        int(file_text(directory / "numa_node").strip() or -1)
        for directory in sorted(sys.glob("bus/pci/devices/*"))
        if file_text(directory / "vendor").strip() == _HUAWEI
        and file_text(directory / "class").startswith(_ACCELERATOR)
    ]
    return Machine(allowed, numa, tuple(devices))


def cores_of(text: str) -> frozenset[int]:
    """The cores in a list of the kernel's format, such as `0-3,8`."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return frozenset(cores)
