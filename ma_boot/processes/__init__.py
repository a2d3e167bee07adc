"""Signals, threads and child processes; knows nothing of ranks."""

from ma_boot.processes.children import (
    adopt_orphans,
    adopted_children,
    forbid_core_files,
    reap_orphans,
    run_child,
)
from ma_boot.processes.control_group import OomCounters, file_text, memory_groups
from ma_boot.processes.cpu_meter import (
    CpuMeter,
    ProcessUsage,
    children_of,
    io_counters,
    process_usages,
    usage_of,
)
from ma_boot.processes.leftovers import guarded, stop_leftovers, stop_setup
from ma_boot.processes.orphan_guard import (
    GUARD,
    MARKER_VARIABLE,
    own_marker,
    process_stat,
    process_stats,
    processes_marked,
    processes_of,
    processes_with,
    running_processes,
)
from ma_boot.processes.parent_shell import swallowing_shell
from ma_boot.processes.signals import SignalInbox, signal_group, signal_process
from ma_boot.processes.task import REMIND_SECONDS, Task

__all__ = [
    "GUARD",
    "MARKER_VARIABLE",
    "REMIND_SECONDS",
    "CpuMeter",
    "OomCounters",
    "ProcessUsage",
    "SignalInbox",
    "Task",
    "adopt_orphans",
    "adopted_children",
    "children_of",
    "file_text",
    "forbid_core_files",
    "guarded",
    "io_counters",
    "memory_groups",
    "own_marker",
    "process_stat",
    "process_stats",
    "process_usages",
    "processes_marked",
    "processes_of",
    "processes_with",
    "reap_orphans",
    "run_child",
    "running_processes",
    "signal_group",
    "signal_process",
    "stop_leftovers",
    "stop_setup",
    "swallowing_shell",
    "usage_of",
]
