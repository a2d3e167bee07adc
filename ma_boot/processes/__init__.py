"""Signals, threads and child processes; knows nothing of ranks."""

from ma_boot.processes.children import (
    adopt_orphans as adopt_orphans,
    adopted_children as adopted_children,
    forbid_core_files as forbid_core_files,
    guarded as guarded,
    reap_orphans as reap_orphans,
    run_child as run_child,
    stop_leftovers as stop_leftovers,
    stop_setup as stop_setup,
)
from ma_boot.processes.control_group import (
    OomCounters as OomCounters,
    file_text as file_text,
    limit_reached as limit_reached,
    memory_groups as memory_groups,
    no_more_processes as no_more_processes,
)
from ma_boot.processes.cpu_meter import (
    CpuMeter as CpuMeter,
    ProcessUsage as ProcessUsage,
    io_counters as io_counters,
    process_usages as process_usages,
    runnable_seconds as runnable_seconds,
)
from ma_boot.processes.orphan_guard import (
    GUARD as GUARD,
    MARKER_VARIABLE as MARKER_VARIABLE,
    children_of as children_of,
    descendants as descendants,
    own_marker as own_marker,
    process_stat as process_stat,
    process_stats as process_stats,
    processes_marked as processes_marked,
    processes_of as processes_of,
    processes_with as processes_with,
    running_processes as running_processes,
)
from ma_boot.processes.signals import (
    SignalInbox as SignalInbox,
    catches_signal as catches_signal,
    signal_group as signal_group,
    signal_process as signal_process,
    swallowing_shell as swallowing_shell,
)
from ma_boot.processes.sockets import socket_bytes as socket_bytes, sockets_of as sockets_of
from ma_boot.processes.task import REMIND_SECONDS as REMIND_SECONDS, Task as Task
