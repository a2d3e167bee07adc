"""CPU time, memory, disks and network of the ranks and of the machine, from /proc and the control group."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.observe.metrics.record import HostSample, RankUsage
from ma_boot.node.observe.metrics.source import Source
from ma_boot.processes.control_group import file_text, memory_groups
from ma_boot.processes.cpu_meter import CpuMeter, ProcessUsage, io_counters, process_usages

# Seconds of a tick, the unit of CPU times in /proc.
_TICK = 1 / os.sysconf("SC_CLK_TCK")
# Bytes; control groups of version 1 show a number near 2 ** 63 if there is no limit.
_NO_LIMIT = 1 << 60


class UsageReader:
    """Reads the usage of processes, each until it ends, and of the machine with the disks of `spec`."""

    def __init__(self, spec: WorkerSpec | None) -> None:
        self._meters: dict[Source, RankMeter] = {}
        used = (spec.cwd, os.path.dirname(spec.log_file)) if spec else ()
        self._disks = tuple(dict.fromkeys((*used, "/cache", "/dev/shm")))

    def of_ranks(self, sources: Sequence[Source]) -> dict[Source, RankUsage]:
        """Returns the usage of each process that has not ended."""
        processes = process_usages()
        usages: dict[Source, RankUsage] = {}
        for source in sources:
            meter = self._meters.setdefault(source, RankMeter(source.pid))
            usage = None if source.has_ended else meter.measure(processes)
            if usage is not None:
                usages[source] = usage
        return usages

    def of_host(self) -> HostSample:
        """Returns the usage of the machine, with the disks of working directory, logs, cache and memory."""
        return sample_host(self._disks)


class RankMeter:
    """Measures one process and its descendants; the sums of CPU time and bytes never fall."""

    def __init__(self, pid: int) -> None:
        self._cpu = CpuMeter(pid)
        self._read = 0
        self._written = 0

    def measure(self, processes: Mapping[int, ProcessUsage]) -> RankUsage | None:
        """Returns the usage until now, of all `processes` of the container; None once all have ended."""
        seconds = self._cpu.measure(processes, os.getpid())
        members = self._cpu.members
        if not members:
            return None
        known = [storage for storage in map(_storage, members) if storage is not None]
        # The bytes of a process that ends are lost, so the sum may be less than before.
        self._read = max(self._read, sum(read for read, _ in known))
        self._written = max(self._written, sum(written for _, written in known))
        return RankUsage(
            seconds,
            sum(usage.rss for usage in members.values()),
            sum(usage.threads for usage in members.values()),
            read=self._read if known else None,
            written=self._written if known else None,
        )


def _storage(pid: int) -> tuple[int, int] | None:
    """Bytes that a process has read from storage and written to it; None where the kernel hides them."""
    counters = io_counters(pid)
    return (counters["read_bytes"], counters["write_bytes"]) if counters else None


def sample_host(disks: Sequence[str], root: Path = Path("/")) -> HostSample:
    """Returns the machine's usage, with those of the directories `disks` that exist, one per file system."""
    received, sent = network_bytes(file_text(root / "proc/net/dev"))
    return HostSample(
        cpu=cpu_seconds(file_text(root / "proc/stat")),
        cores=os.cpu_count() or 1,
        memory=_group_memory(root) or machine_memory(file_text(root / "proc/meminfo")),
        disks=_disks(disks),
        received=received,
        sent=sent,
    )


def cpu_seconds(stat: str) -> float | None:
    """Returns the busy seconds of all cores from /proc/stat, without idle time and waits for disks."""
    words = stat.partition("\n")[0].split()
    # cpu user nice system idle iowait irq softirq ..., in ticks.
    if len(words) < 8 or words[0] != "cpu" or not all(word.isdecimal() for word in words[1:8]):
        return None
    user, nice, system, _idle, _iowait, irq, softirq = map(int, words[1:8])
    return (user + nice + system + irq + softirq) * _TICK


def machine_memory(meminfo: str) -> tuple[int, int] | None:
    """Returns used and total bytes from /proc/meminfo."""
    sizes = {}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdecimal():
            sizes[name] = int(words[0]) << 10
    if "MemTotal" not in sizes or "MemAvailable" not in sizes:
        return None
    return sizes["MemTotal"] - sizes["MemAvailable"], sizes["MemTotal"]


def network_bytes(dev: str) -> tuple[int | None, int | None]:
    """Returns bytes received and sent by all interfaces but the loopback, from /proc/net/dev."""
    counted = []
    # Two lines of headings; the first column counts received bytes, the ninth sent ones.
    for line in dev.splitlines()[2:]:
        name, _, counters = line.partition(":")
        words = counters.split()
        if name.strip() != "lo" and len(words) >= 9 and words[0].isdecimal() and words[8].isdecimal():
            counted.append((int(words[0]), int(words[8])))
    if not counted:
        return None, None
    return sum(received for received, _ in counted), sum(sent for _, sent in counted)


def _group_memory(root: Path) -> tuple[int, int] | None:
    """Returns used bytes, without the cache that the kernel can drop, and the limit; None without a limit."""
    for group in memory_groups(root):
        used, limit = file_text(group.usage).strip(), file_text(group.limit).strip()
        if used.isdecimal() and limit.isdecimal() and int(limit) < _NO_LIMIT:
            stat = dict(line.split(" ", 1) for line in file_text(group.stat).splitlines() if " " in line)
            dropped = stat.get("total_inactive_file") or stat.get("inactive_file") or "0"
            return max(0, int(used) - int(dropped)), int(limit)
    return None


def _disks(directories: Sequence[str]) -> dict[str, tuple[int, int]]:
    disks: dict[str, tuple[int, int]] = {}
    devices = set()
    for directory in directories:
        try:
            device, sizes = os.stat(directory).st_dev, os.statvfs(directory)
        except OSError:
            continue
        # Several directories may be on one file system.
        if device not in devices and sizes.f_blocks:
            devices.add(device)
            disks[directory] = (
                (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize,
                sizes.f_blocks * sizes.f_frsize,
            )
    return disks
