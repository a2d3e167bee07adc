"""Which cores a rank gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.platform.modelarts.cpu_affinity import Machine, assign_cores, parse_cores, read_machine


def machine(cores: int, nodes: int = 1, devices: tuple[int, ...] = ()) -> Machine:
    each = cores // nodes
    numa = {node: frozenset(range(node * each, (node + 1) * each)) for node in range(nodes)}
    return Machine(frozenset(range(cores)), numa, devices)


@pytest.mark.parametrize(
    ("mode", "node", "device_ids", "expected"),
    [
        ("equal", machine(8), (0, 1), ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("equal", machine(7), (0, 1), ((0, 1, 2), (3, 4, 5))),
        ("equal", machine(1), (0, 1), ((), ())),
        ("numa", machine(8, 2, (0, 0, 1, 1)), (2, 3), ((4, 5), (6, 7))),
        ("numa", machine(8, 2, (1, 0)), (0, 1), ((4, 5, 6, 7), (0, 1, 2, 3))),
        ("numa", machine(8, 2), (0, 1), ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("numa", machine(8, 2, (-1, -1)), (0, 1), ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("numa", machine(8, 4), (0, 1), ((0, 1), (4, 5))),
        ("numa", machine(8, 2, (0, 0)), (0, 9), ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("numa", Machine(frozenset({0, 4, 5, 6}), machine(8, 2).numa, (0, 0)), (0, 1), ((0, 4), (5, 6))),
        ("numa", Machine(frozenset(range(4)), {}, ()), (0, 1), ((0, 1), (2, 3))),
    ],
)
def test_cores_are_assigned_to_ranks(
    mode: str, node: Machine, device_ids: Sequence[int], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert assign_cores(mode, node, device_ids) == expected


@given(
    mode=st.sampled_from(["equal", "numa"]),
    allowed=st.frozensets(st.integers(0, 31), min_size=1),
    nodes=st.integers(1, 4),
    devices=st.lists(st.integers(-1, 3), max_size=8),
    count=st.integers(1, 8),
)
def test_shares_are_allowed_disjoint_and_equal_or_none(
    mode: str, allowed: frozenset[int], nodes: int, devices: list[int], count: int
) -> None:
    bound = assign_cores(mode, Machine(allowed, machine(32, nodes).numa, tuple(devices)), range(count))
    assert len(bound) == count
    used = [core for cores in bound for core in cores]
    assert len(used) == len(set(used))
    assert set(used) <= allowed
    assert all(bound) or not any(bound)


def test_numa_nodes_and_npus_are_read_from_sys(tmp_path: Path) -> None:
    for node, cpus in enumerate(["0-3", "4-7"]):
        directory = tmp_path / "devices/system/node" / f"node{node}"
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(cpus + "\n")
    pci = [("0000:01:00.0", "0x19e5", "0x120000", "1"), ("0000:02:00.0", "0x19e5", "0x120000", "0"),
           ("0000:03:00.0", "0x8086", "0x120000", "0"), ("0000:04:00.0", "0x19e5", "0x020000", "0")]  # fmt: skip
    for address, vendor, kind, numa in pci:
        directory = tmp_path / "bus/pci/devices" / address
        directory.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("class", kind), ("numa_node", numa)):
            (directory / name).write_text(text + "\n")
    shown = read_machine(frozenset({0, 5}), tmp_path)
    assert shown == Machine(frozenset({0, 5}), {0: frozenset(range(4)), 1: frozenset(range(4, 8))}, (1, 0))


def test_an_empty_sys_has_no_nodes(tmp_path: Path) -> None:
    assert read_machine(frozenset({0}), tmp_path) == Machine(frozenset({0}), {}, ())
    assert parse_cores("0-1,4,6-7\n") == {0, 1, 4, 6, 7}
