"""What the tools of NPUs and GPUs print, and whether a card works.

The tables of `npu-smi info` differ between releases (21 to 26) in width and columns, so a row is taken apart
at its bars: `| NPU Name | Health | Power Temp ... |`, then each chip:
`| Chip [Phy-ID] | Bus-Id | AICore ... |`.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import BinaryIO, NamedTuple

from ma_boot.node.observe.record import CardSample
from ma_boot.processes.signals import signal_group
from ma_boot.redact import without_secret_variables

GPU_QUERY = (
    "utilization.gpu", "utilization.memory", "memory.used", "memory.total", "temperature.gpu", "power.draw",
    "pcie.link.gen.current", "pcie.link.width.current",
)  # fmt: skip
BUSY_PERCENT = 5.0
_OF_OF = re.compile(r"\b(\d{1,9})\s*/\s*(\d{1,9})\b")
_LINK = re.compile(r"link status:\s*(\w+)", re.IGNORECASE)


class NpuRow(NamedTuple):
    """A chip in the table: number and name of its card, physical number of the chip, and what it does."""

    npu: int
    name: str
    physical: int
    sample: CardSample


class NpuState(NamedTuple):
    """The NPUs of a node, and how many processes use them: None if the tool does not tell."""

    rows: list[NpuRow]
    processes: int | None


def npu_state(table: str) -> NpuState:
    """What `npu-smi info` tells: below the chips are the processes, or a line for each NPU that has none."""
    cells = [[cell.strip() for cell in line.strip().split("|")[1:-1]] for line in table.splitlines()]
    of_processes = [row for row in cells if len(row) == 4]
    used = sum(row[1].isdecimal() for row in of_processes)
    tells = any(row[1] == "Process id" for row in of_processes)
    return NpuState(npu_rows(table), used if tells else None)


def npu_rows(table: str) -> list[NpuRow]:
    """The chips in the output of `npu-smi info`, in its order, which is that of the container's devices."""
    rows: list[NpuRow] = []
    card: tuple[int, str, str, float | None, float | None] | None = None
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        words = cells[0].split() if len(cells) == 3 else []
        if not words or not words[0].isdecimal():
            continue
        if cells[1].isalpha() and cells[1] != "NA" and len(words) > 1:
            power, temperature = (*map(_number, cells[2].split()), None, None)[:2]
            card = (int(words[0]), words[1], cells[1], power, temperature)
        elif card is not None:
            npu, name, health, power, temperature = card
            used, total = _memory(cells[2])
            utilisation = _number(cells[2].split()[0]) if cells[2] else None
            sample = CardSample(len(rows), utilisation, used, total, temperature, power, health)
            physical = int(words[1]) if len(words) > 1 and words[1].isdecimal() else npu
            rows.append(NpuRow(npu, name, physical, sample))
            card = None
    return rows


def gpu_samples(text: str) -> list[CardSample]:
    """The GPUs that `nvidia-smi --query-gpu=... --format=csv,noheader,nounits` prints for `GPU_QUERY`."""
    samples: list[CardSample] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(GPU_QUERY):
            continue
        values: dict[str, float | None] = {name: _number(cell) for name, cell in zip(GPU_QUERY, cells)}
        generation, width = values["pcie.link.gen.current"], values["pcie.link.width.current"]
        samples.append(
            CardSample(
                len(samples),
                values["utilization.gpu"],
                _whole(values["memory.used"]),
                _whole(values["memory.total"]),
                values["temperature.gpu"],
                values["power.draw"],
                link=None if generation is None or width is None else f"gen{generation:.0f} x{width:.0f}",
                memory_activity=values["utilization.memory"],
            )
        )
    return samples


def link_state(text: str) -> str | None:
    """`UP` or `DOWN`, as `hccn_tool -i N -link -g` prints it (`link status: UP`)."""
    match = _LINK.search(text)
    return match.group(1).upper() if match else None


def works(card: CardSample) -> bool:
    """Whether a card computes; a rank that waits for it is no hang then.

    A GPU counts as in use while a kernel of NCCL spins, waiting for another rank: there the memory tells.
    """
    used = card.utilisation if card.memory_activity is None else card.memory_activity
    return used is not None and used >= BUSY_PERCENT


def _memory(cell: str) -> tuple[int | None, int | None]:
    """MiB used and in all: of the last memory that the chip has, which is HBM where it has both."""
    pairs = [(int(used), int(total)) for used, total in _OF_OF.findall(cell) if int(total)]
    return pairs[-1] if pairs else (None, None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # -, NA, [N/A], [Not Supported]
        return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


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

    @property
    def due(self) -> bool:
        """Whether it is time for a look: not too soon after the last one for what it had cost."""
        return bool(self.kind) and self._failures < FAILURES and time.monotonic() >= self._due

    def sample(self, cancel: Event) -> tuple[CardSample, ...]:
        """The cards now; none if it is no time for a look, or the tool fails."""
        if not self.due:
            return ()
        before = _children_cpu()
        samples = self.read(cancel)
        spent = _children_cpu() - before
        self._due = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, spent / SHARE))
        self._failures = 0 if samples else self._failures + 1
        return samples

    def read(self, cancel: Event) -> tuple[CardSample, ...]:
        """The cards now, without regard to the cost."""
        if self._gpu:
            query = [self._gpu, f"--query-gpu={','.join(GPU_QUERY)}", "--format=csv,noheader,nounits"]
            return tuple(gpu_samples(self._output_of(query, cancel) or ""))
        if not self._npu:
            return ()
        rows = npu_rows(self._output_of([self._npu, "info"], cancel) or "")
        return tuple(row.sample._replace(link=self._link_of(row.physical, cancel)) for row in rows)

    def npus(self, cancel: Event) -> NpuState | None:
        """The NPUs now, without regard to the cost; None without `npu-smi`, or if it fails."""
        table = self._output_of([self._npu, "info"], cancel) if self._npu else None
        return npu_state(table) if table is not None else None

    def _link_of(self, physical: int, cancel: Event) -> str | None:
        if self._link is None or cancel.is_set():
            return None
        text = self._output_of([self._link, "-i", str(physical), "-link", "-g"], cancel)
        if text is None:  # some drivers allow it to root only
            self._link = None
        return link_state(text or "")

    def _output_of(self, argv: Sequence[str], cancel: Event) -> str | None:
        """What the tool prints; None if it fails or is cancelled."""
        code, text = run_tool(argv, self._environ, cancel)
        return text if code == 0 else None


def run_tool(
    argv: Sequence[str], environ: Mapping[str, str], cancel: Event, stderr: int = subprocess.DEVNULL
) -> tuple[int, str]:
    """The exit code of a tool, and what it prints to standard output, with `stderr=STDOUT` to both.

    124, and why, if it has not ended in time, has printed too much or is cancelled; 126 if it cannot be
    started. What does not end in time is killed, and not waited for: the driver may hold it even then.
    """
    with memory_file() as output:
        try:
            process = subprocess.Popen(
                argv,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            return 126, str(error.strerror)
        if not _ended(process, cancel):
            return 124, f"no answer within {TOOL_SECONDS:.0f} s"
        if is_full(output):
            return 124, f"it prints more than {LONGEST_ANSWER} bytes"
        return process.returncode, contents(output)


def _ended(process: subprocess.Popen[bytes], cancel: Event) -> bool:
    until = time.monotonic() + TOOL_SECONDS
    while not cancel.is_set() and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
            return True
    signal_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
    return False


LONGEST_ANSWER = 1 << 20  # bytes


def memory_file() -> BinaryIO:
    """A file in memory of `LONGEST_ANSWER` bytes, that nobody can make longer: for what a tool prints.

    No child of the tool keeps it open, as it would a pipe.
    """
    descriptor = os.memfd_create("tool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, LONGEST_ANSWER)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return os.fdopen(descriptor, "r+b", buffering=0)


def is_full(file: BinaryIO) -> bool:
    """Whether a tool has printed as much as it could."""
    return file.tell() >= LONGEST_ANSWER


def contents(file: BinaryIO) -> str:
    """What a tool has written to such a file, which had its position."""
    return os.pread(file.fileno(), file.tell(), 0).decode("utf-8", "replace")


def _children_cpu() -> float:
    """The CPU seconds of all children that have ended: those of others only make the pause longer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
