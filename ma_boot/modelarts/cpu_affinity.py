"""Which cores each rank may use: `--bind-cores`. Pure, but for reading what the machine looks like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, FrozenSet, List, Mapping, Sequence, Tuple

BIND_CORES = ("none", "equal", "numa")
_HUAWEI = "0x19e5"
_ACCELERATOR = "0x1200"  # PCI class "processing accelerator", without its interface byte


@dataclass(frozen=True)
class Machine:
    """What a node has: the cores that this process may use, those of each NUMA node, and the NUMA node of
    each NPU (in the order of PCI addresses, which is that of physical device ids), as far as `/sys` tells."""

    allowed: FrozenSet[int]
    numa: Mapping[int, FrozenSet[int]]
    device_numa: Tuple[int, ...]


def bound_cores(mode: str, machine: Machine, device_ids: Sequence[int]) -> Tuple[Tuple[int, ...], ...]:
    """The cores of each local rank, `()` where it is not bound; `device_ids` are the physical devices.

    `equal`: contiguous shares of the allowed cores, as the model zoo's scripts do it by `taskset`. `numa`:
    the ranks of one NUMA node share its allowed cores; where the devices' nodes are unknown, the ranks go to
    the nodes in equal contiguous shares. Without a core for each rank nobody is bound.
    """
    count = len(device_ids)
    if mode == "none" or len(machine.allowed) < count:
        return ((),) * count
    if mode == "equal":
        return _shares(sorted(machine.allowed), count)
    nodes = _nodes(machine, device_ids)
    groups: Dict[int, List[int]] = {}
    for local_rank, node in enumerate(nodes):
        groups.setdefault(node, []).append(local_rank)
    bound: List[Tuple[int, ...]] = [()] * count
    for node, ranks in groups.items():
        cores = sorted(machine.numa.get(node, frozenset()) & machine.allowed)
        if len(cores) < len(ranks):
            return _shares(sorted(machine.allowed), count)
        for local_rank, share in zip(ranks, _shares(cores, len(ranks))):
            bound[local_rank] = share
    return tuple(bound)


def _nodes(machine: Machine, device_ids: Sequence[int]) -> List[int]:
    """The NUMA node of each local rank."""
    known = machine.device_numa
    if all(device < len(known) and known[device] >= 0 for device in device_ids):
        return [known[device] for device in device_ids]
    usable = sorted(node for node, cores in machine.numa.items() if cores & machine.allowed) or [0]
    count = len(device_ids)
    return [usable[local_rank * len(usable) // count] for local_rank in range(count)]


def _shares(cores: Sequence[int], count: int) -> Tuple[Tuple[int, ...], ...]:
    each = len(cores) // count
    return tuple(tuple(cores[i * each : (i + 1) * each]) for i in range(count))


def read_machine(allowed: FrozenSet[int], sys: Path = Path("/sys")) -> Machine:
    """This node's cores and devices, as `/sys` shows them; what it does not show is left out."""
    numa = {
        int(directory.name[4:]): cores_of(_text(directory / "cpulist"))
        for directory in sys.glob("devices/system/node/node[0-9]*")
    }
    devices = [
        int(_text(directory / "numa_node") or -1)
        for directory in sorted(sys.glob("bus/pci/devices/*"))
        if _text(directory / "vendor") == _HUAWEI and _text(directory / "class").startswith(_ACCELERATOR)
    ]
    return Machine(allowed, numa, tuple(devices))


def cores_of(text: str) -> FrozenSet[int]:
    """`0-3,8` as the kernel lists cores."""
    cores: List[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return frozenset(cores)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
