"""The cores that each rank may use (`--bind-cores`), and the machine's topology from `/sys`."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Sequence, Tuple

from ma_boot.processes import file_text

_HUAWEI = "0x19e5"  # PCI vendor
_ACCELERATOR = "0x1200"  # PCI class "processing accelerator", without the interface byte


class Machine(NamedTuple):
    """The cores that this process may use, those of each NUMA node, and the NUMA node of each NPU.

    `device_numa` is in the order of PCI addresses, which is the order of physical device ids; -1 is unknown.
    """

    allowed: FrozenSet[int]
    numa: Mapping[int, FrozenSet[int]]
    device_numa: Tuple[int, ...]


def bound_cores(mode: str, machine: Machine, device_ids: Sequence[int]) -> Tuple[Tuple[int, ...], ...]:
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


def cores_of(text: str) -> FrozenSet[int]:
    """The cores in a list of the kernel's format, such as `0-3,8`."""
    cores: List[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return frozenset(cores)
