"""Reads NPUs by the tools of their driver, at most every half minute, and GPUs by NVML."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from threading import Event

from ma_boot.node.observe.metrics.card_tables import NpuState, parse_link, parse_npu_rows, parse_npu_state
from ma_boot.node.observe.metrics.record import CardSample
from ma_boot.processes.tool import run_tool

# Seconds between two calls of the tools, which start a process; NVML is asked for each sample.
LEAST_PAUSE = 30.0
LONGEST_PAUSE = 600.0
# Share of a core that the tools may use.
CPU_SHARE = 0.002
# Consecutive failures after which the tools are not called any more.
MOST_FAILURES = 3
# Directories in which drivers install their tools.
_DIRECTORIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/usr/local/Ascend/driver/tools"


class CardTools:
    """The cards by `npu-smi` (and `hccn_tool` for the link), or else by NVML.

    The tools are searched for on the PATH of `environ`, their environment, and in the drivers' directories.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        path = f"{environ.get('PATH', '')}:{_DIRECTORIES}"
        self._npu = shutil.which("npu-smi", path=path)
        self._has_gpus = not self._npu and _can_read_gpus()
        self._link = shutil.which("hccn_tool", path=path) if self._npu else None
        self._due = 0.0
        self._failures = 0

    @property
    def kind(self) -> str:
        """`npu`, `gpu`, or empty without a driver."""
        return "npu" if self._npu else "gpu" if self._has_gpus else ""

    @property
    def is_due(self) -> bool:
        """Tells if the tools may be called again: the more CPU time they need, the later."""
        return bool(self.kind) and self._failures < MOST_FAILURES and time.monotonic() >= self._due

    def sample(self, cancel: Event) -> tuple[CardSample, ...]:
        """Returns the cards now; empty if no call is due, or the driver fails."""
        if not self.is_due:
            return ()
        before = _children_cpu()
        samples = self.read(cancel)
        spent = _children_cpu() - before
        if self._npu:
            self._due = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, spent / CPU_SHARE))
        self._failures = 0 if samples else self._failures + 1
        return samples

    def read(self, cancel: Event) -> tuple[CardSample, ...]:
        """Returns the cards now, at any cost; empty if the driver fails."""
        if not self._npu:
            if not self._has_gpus:
                return ()
            from ma_boot.node.observe.metrics.nvml import read_gpus

            reading = read_gpus()
            return tuple(gpu.sample() for gpu in reading.gpus) if reading is not None else ()
        rows = parse_npu_rows(self._output_of([self._npu, "info"], cancel) or "")
        return tuple(row.sample._replace(link=self._link_of(row.physical, cancel)) for row in rows)

    def read_npus(self, cancel: Event) -> NpuState | None:
        """Returns the NPUs now, at any cost; None without `npu-smi`, or if it fails."""
        table = self._output_of([self._npu, "info"], cancel) if self._npu else None
        return parse_npu_state(table) if table is not None else None

    def _link_of(self, physical: int, cancel: Event) -> str | None:
        if self._link is None or cancel.is_set():
            return None
        text = self._output_of([self._link, "-i", str(physical), "-link", "-g"], cancel)
        # Some drivers allow the tool to root only, so one failure is enough.
        if text is None:
            self._link = None
        return parse_link(text or "")

    def _output_of(self, argv: Sequence[str], cancel: Event) -> str | None:
        """Returns the output of a tool; None if it fails or is cancelled."""
        code, text = run_tool(argv, self._environ, cancel)
        return text if code == 0 else None


def _can_read_gpus() -> bool:
    # Imported once cards are read: a start needs neither ctypes nor NVML.
    from ma_boot.node.observe.metrics.nvml import can_read

    return can_read()


def _children_cpu() -> float:
    """CPU seconds of all children that have ended; those that are no tools only make the pause longer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
