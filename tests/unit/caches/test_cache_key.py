"""The key of a cache: other code, software or hardware has another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.node.caches.cache_key import cache_key, read_machine_facts

CPU = "processor\t: 0\nmodel name\t: A\nflags\t\t: avx2 fma\nbogomips: 1\n\nprocessor\t: 1\nmodel name\t: B\n"


def machine(root: Path, cpu: str = CPU, device: str = "0xd802", driver: str = "driver 550") -> dict[str, str]:
    card = root / "sys" / "bus" / "pci" / "devices" / "0000:01:00.0"
    for path, text in {
        root / "proc" / "cpuinfo": cpu,
        root / "proc" / "driver" / "nvidia" / "version": f"{driver}\nGCC 12\n",
        card / "vendor": "0x19e5\n",
        card / "device": f"{device}\n",
        card / "class": "0x120000\n",
        root / "cann" / "version.cfg": "8.0",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_machine_facts({"ASCEND_HOME_PATH": str(root / "cann")}, root)


def test_the_same_machine_has_the_same_key(tmp_path: Path) -> None:
    assert cache_key("c0de", machine(tmp_path)) == cache_key("c0de", machine(tmp_path))
    facts = machine(tmp_path)
    assert facts["processor"] == "flags: avx2 fma; model name: A"
    assert (facts["accelerators"], facts["nvidia driver"]) == ("0x19e5:0xd802:", "driver 550")
    assert "8.0" in facts.values()


@pytest.mark.parametrize(
    "changed",
    [{"cpu": CPU.replace("avx2", "avx512f")}, {"device": "0xd803"}, {"driver": "driver 560"}],
)
def test_other_hardware_or_drivers_have_another_key(tmp_path: Path, changed: dict[str, str]) -> None:
    assert cache_key("c0de", machine(tmp_path, **changed)) != cache_key("c0de", machine(tmp_path))


def test_other_code_or_software_has_another_key() -> None:
    keys = {
        cache_key(code, {"torch": version})
        for code, version in [("c0de", "2.6"), ("c0de", "2.7"), ("c0df", "2.6")]
    }
    assert len(keys) == 3


def test_facts_are_kept_apart() -> None:
    assert cache_key("c", {"a": "1", "b": "2"}) != cache_key("c", {"a": '1"], ["b", "2'})
