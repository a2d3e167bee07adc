"""The kernel's counters of OOM kills, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.processes.control_group import OomCounters

V2 = {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.events": "low 0\noom 0\noom_kill {}\n",
      "sys/fs/cgroup/job/memory.max": "536870912\n"}  # fmt: skip
IN_CONTAINER = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill {}\n",
                "sys/fs/cgroup/memory.max": "max\n"}  # fmt: skip
V1 = {
    "proc/self/cgroup": "5:devices:/x\n4:cpu,memory:/docker/1\n0::/\n",
    "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
}
MACHINE = {"proc/self/cgroup": "", "proc/vmstat": "nr_free_pages 1\noom_kill {}\n"}


def write(root: Path, files: dict[str, str], kills: int) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.format(kills))


@pytest.mark.parametrize(
    ("files", "kills", "part"),
    [
        (V2, 2, "2 processes of this container (limit 512 MiB)"),
        (IN_CONTAINER, 2, "2 processes of this container"),
        (IN_CONTAINER, 1, "1 process of this container"),
        (V1, 2, "2 processes of this container (limit 1024 MiB)"),
        (MACHINE, 2, "2 processes of this machine, perhaps of another container"),
    ],
    ids=["v2", "container", "one", "v1", "machine"],
)
def test_increased_counter_is_evidence(tmp_path: Path, files: dict[str, str], kills: int, part: str) -> None:
    write(tmp_path, files, 3)
    counters = OomCounters(tmp_path)
    assert counters.evidence() is None
    write(tmp_path, files, 3 + kills)
    assert counters.evidence() == f"the kernel killed {part}"


@pytest.mark.parametrize("files", [None, {"proc/self/cgroup": "0::/\n"}])
def test_no_counter_no_evidence(tmp_path: Path, files: dict[str, str] | None) -> None:
    write(tmp_path, files or {}, 0)
    assert OomCounters(tmp_path).evidence() is None
