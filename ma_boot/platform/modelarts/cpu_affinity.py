"""CPU affinity: the cores of each local rank, by the NUMA nodes of the machine and of its NPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ma_boot.processes.control_group import file_text

# PCI vendor, and PCI class "processing accelerator" without the byte of the interface.
_HUAWEI = "0x19e5"
_ACCELERATOR = "0x1200"


class Machine(NamedTuple):
    """Cores that this process may use, cores of each NUMA node, and the NUMA node of each NPU.

    `device_numa` has the order of PCI addresses, which is that of physical device ids; -1 is unknown.
    """

    allowed: frozenset[int]
    numa: Mapping[int, frozenset[int]]
    device_numa: tuple[int, ...]


def assign_cores(mode: str, machine: Machine, device_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Returns the cores of each local rank, `()` for one that is not bound, by its physical device.

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
            # The allowed cores are on other NUMA nodes than the cards: equal shares are better than none.
            return _shares(sorted(machine.allowed), count)
        for local_rank, share in zip(ranks, _shares(cores, len(ranks))):
            bound[local_rank] = share
    return tuple(bound)


def _nodes(machine: Machine, device_ids: Sequence[int]) -> list[int]:
    """Returns the NUMA node of each local rank."""
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
    """Reads cores and devices in `/sys`; `allowed` are the cores of this process."""
    numa = {
        int(directory.name[4:]): parse_cores(file_text(directory / "cpulist").strip())
        for directory in sys.glob("devices/system/node/node[0-9]*")
    }
    devices = [
        int(file_text(directory / "numa_node").strip() or -1)
        for directory in sorted(sys.glob("bus/pci/devices/*"))
        if file_text(directory / "vendor").strip() == _HUAWEI
        and file_text(directory / "class").startswith(_ACCELERATOR)
    ]
    return Machine(allowed, numa, tuple(devices))


def parse_cores(text: str) -> frozenset[int]:
    """Parses a list of cores in the kernel's format, such as `0-3,8`."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return frozenset(cores)
