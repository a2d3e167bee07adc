"""Asks the tool of the NPUs or GPUs of this container what they do."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from threading import Event
from typing import Mapping, Optional, Sequence, Tuple

from ma_boot.metrics.cards import GPU_QUERY, gpu_samples, link_state, npu_rows
from ma_boot.metrics.record import CardSample
from ma_boot.processes import signal_group
from ma_boot.redact import without_secret_variables

LEAST_PAUSE = 30.0  # seconds between two looks
LONGEST_PAUSE = 600.0
SHARE = 0.002  # of a core, which the tool may use
TOOL_SECONDS = 30.0  # npu-smi is slow while the NPUs are busy
FAILURES = 3
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/usr/local/Ascend/driver/tools"
_POLL_SECONDS = 0.1


class CardTools:
    """The cards by `npu-smi` (and `hccn_tool` for the link) or `nvidia-smi`, where there is one.

    They are looked for on the PATH of `environ`, with which they run, but for its secrets, and where drivers
    put them.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = without_secret_variables(environ)
        path = f"{environ.get('PATH', '')}:{_PLACES}"
        self._npu = shutil.which("npu-smi", path=path)
        self._gpu = None if self._npu else shutil.which("nvidia-smi", path=path)
        self._link = shutil.which("hccn_tool", path=path) if self._npu else None
        self._due = 0.0
        self._failures = 0

    @property
    def kind(self) -> str:
        """`npu`, `gpu`, or empty."""
        return "npu" if self._npu else "gpu" if self._gpu else ""

    def sample(self, cancel: Event) -> Tuple[CardSample, ...]:
        """The cards now; none if the last look was too short ago for what it had cost, or the tool fails."""
        if not self.kind or self._failures >= FAILURES or time.monotonic() < self._due:
            return ()
        before = _children_cpu()
        found = self.look(cancel)
        spent = _children_cpu() - before
        self._due = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, spent / SHARE))
        self._failures = 0 if found else self._failures + 1
        return found

    def look(self, cancel: Event) -> Tuple[CardSample, ...]:
        """The cards now, without regard to the cost."""
        if self._gpu:
            query = [self._gpu, f"--query-gpu={','.join(GPU_QUERY)}", "--format=csv,noheader,nounits"]
            return tuple(gpu_samples(self._asked(query, cancel) or ""))
        if not self._npu:
            return ()
        rows = npu_rows(self._asked([self._npu, "info"], cancel) or "")
        return tuple(row.sample._replace(link=self._link_of(row.physical, cancel)) for row in rows)

    def _link_of(self, physical: int, cancel: Event) -> Optional[str]:
        if self._link is None or cancel.is_set():
            return None
        text = self._asked([self._link, "-i", str(physical), "-link", "-g"], cancel)
        if text is None:  # some drivers allow it to root only
            self._link = None
        return link_state(text or "")

    def _asked(self, argv: Sequence[str], cancel: Event) -> Optional[str]:
        """What the tool prints; None if it fails, takes too long, or is cancelled."""
        try:
            process = subprocess.Popen(
                argv, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError:
            return None
        return _output(process, cancel)


def _output(process: subprocess.Popen[bytes], cancel: Event) -> Optional[str]:
    """What is not there in time is killed, and not waited for: the driver may hold it even then."""
    until = time.monotonic() + TOOL_SECONDS
    while not cancel.is_set() and time.monotonic() < until:
        try:
            output, _ = process.communicate(timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return output.decode("utf-8", "replace") if process.returncode == 0 else None
    signal_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_POLL_SECONDS)
    return None


def _children_cpu() -> float:
    """The CPU seconds of all children that have ended: those of others only make the pause longer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
