"""Values of a GPU as NVML has them, and its defects. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ma_boot.node.observe.metrics.record import CardSample
from ma_boot.wording import Message

# NVIDIA's catalog of Xid errors (docs.nvidia.com/deploy/xid-errors): those of the hardware, of which most
# need a reset of the GPU. Others (13, 31, 43, 45, ...) are errors of the program.
XIDS_OF_HARDWARE = {
    48: "uncorrectable ECC error",
    63: "row remapping",
    64: "row remapping failed",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor has failed",
    140: "unrecovered ECC error",
}
# nvmlDeviceGpuRecoveryAction_t, by number.
RECOVERY_ACTIONS = (
    "none", "reset the GPU", "reboot the node", "drain and reset peers", "drain and reset the GPU",
    "recover the IMEX domain", "reset the bus", "reboot the system",
)  # fmt: skip
# nvmlClocksEventReasons, by bit: those that make a GPU slower than its clocks allow.
_THROTTLED = {0x4: "power", 0x8: "hardware", 0x20: "heat", 0x40: "heat (hardware)", 0x80: "power brake"}
_MIB = 1 << 20
# Part of the memory that is in use on a GPU without processes: driver, ECC, page tables.
_OF_DRIVER = 0.05


class Gpu(NamedTuple):
    """A GPU, by its number in this container; None where the driver shows no value.

    Memory is in bytes, power in W, clocks in MHz. `ecc` are uncorrectable errors since the driver was loaded,
    `remapped` rows of the memory that were replaced, `links` the NVLinks that are up and all of them. `xids`
    are the errors since ma_boot has looked first. `processes` compute on it, as far as the container shows.
    """

    card: int
    name: str = ""
    is_lost: bool = False
    utilisation: float | None = None
    memory_activity: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    clock: int | None = None
    clock_reasons: int | None = None
    pcie: tuple[int, int] | None = None
    links: tuple[int, int] | None = None
    ecc: int | None = None
    remapped: int | None = None
    remap_pending: bool = False
    remap_failed: bool = False
    recovery: int | None = None
    xids: tuple[int, ...] = ()
    processes: tuple[int, ...] | None = None

    @property
    def is_free(self) -> bool:
        """True if no process has memory of it."""
        if self.memory is None or not self.memory_total:
            return not self.processes
        return self.memory <= self.memory_total * _OF_DRIVER

    def sample(self) -> CardSample:
        """Returns the values for an event `metrics`."""
        reasons = self.clock_reasons
        defect = next(iter(defects(self)), None)
        return CardSample(
            self.card,
            utilisation=self.utilisation,
            memory=None if self.memory is None else self.memory // _MIB,
            memory_total=None if self.memory_total is None else self.memory_total // _MIB,
            temperature=self.temperature,
            power=self.power,
            health="OK" if defect is None else str(defect),
            link=None if self.pcie is None else f"gen{self.pcie[0]} x{self.pcie[1]}",
            clock=self.clock,
            throttled=None if reasons is None else ", ".join(_reasons(reasons)) or None,
            nvlink=None if self.links is None else f"{self.links[0]} of {self.links[1]}",
            ecc=self.ecc,
            remapped=self.remapped,
            xid=self.xids[-1] if self.xids else None,
            memory_activity=self.memory_activity,
        )


class GpuReading(NamedTuple):
    """All GPUs of the container; `driver` is its version, `cuda` the newest CUDA that it supports."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] | None = None


def _reasons(bits: int) -> Iterator[str]:
    return (word for bit, word in _THROTTLED.items() if bits & bit)


def defects(gpu: Gpu) -> Iterator[Message]:
    """Yields the defects with which no training can go on: only the platform can reset or replace a GPU."""
    if gpu.is_lost:
        yield Message.of("GPU {} does not answer its driver", gpu.card)
    if gpu.recovery:
        known = gpu.recovery < len(RECOVERY_ACTIONS)
        action = RECOVERY_ACTIONS[gpu.recovery] if known else str(gpu.recovery)
        yield Message.of("GPU {}: the driver asks to {}", gpu.card, action)
    if gpu.remap_failed:
        yield Message.of("GPU {}: a row of its memory could not be remapped", gpu.card)
    if gpu.ecc:
        yield Message.of("GPU {} has {} uncorrectable ECC errors", gpu.card, gpu.ecc)
    if gpu.remap_pending:
        yield Message.of("GPU {}: the remapping of a row of its memory waits for a reset", gpu.card)
    for xid in gpu.xids:
        if xid in XIDS_OF_HARDWARE:
            yield Message.of("GPU {}: Xid {} ({})", gpu.card, xid, XIDS_OF_HARDWARE[xid])
