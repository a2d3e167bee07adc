"""Reads GPUs by NVML, the library of NVIDIA's driver, in threads: a call may hang in the driver.

NVML has one state for all of a process, and so has this module: a session, opened by the first reading.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, Callable, NamedTuple

from ma_boot.node.observe.metrics.gpus import Gpu, GpuReading

LIBRARY = "libnvidia-ml.so.1"
# Seconds; max. wait for the driver where no thread of a caller waits anyway.
READ_SECONDS = 10.0
# Seconds between two checks of a caller that waits: a stop signal ends the wait that much later, at most.
_BETWEEN_CHECKS = 0.1
# NVLinks of a GPU, at most.
_MOST_LINKS = 18
# Xids of a GPU that are kept.
_MOST_XIDS = 16

_lock = threading.Lock()
_xids: dict[int, list[int]] = {}


@lru_cache(maxsize=1)
def has_driver() -> bool:
    """Returns whether this container has NVML: NVIDIA's container runtime mounts it beside the devices."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def has_package() -> bool:
    """Returns whether ma_boot was installed with the extra `gpu`."""
    return importlib.util.find_spec("pynvml") is not None


def can_read() -> bool:
    """Returns whether GPUs can be read here."""
    return has_driver() and has_package()


def read_gpus() -> GpuReading | None:
    """Returns all GPUs now; None if the driver fails, or another reading hangs in it."""
    if not can_read() or not _lock.acquire(timeout=READ_SECONDS):
        return None
    try:
        session = _session()
        nvml = session.nvml
        gpus = tuple(_read(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        _collect_xids(session)
        cuda = _get(nvml, nvml.nvmlSystemGetCudaDriverVersion)
        return GpuReading(
            tuple(gpu._replace(xids=tuple(_xids.get(gpu.card, ()))) for gpu in gpus),
            driver=str(_get(nvml, nvml.nvmlSystemGetDriverVersion) or ""),
            cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        )
    except Exception:
        # Whatever a driver answers: its values are no part of a training.
        return None
    finally:
        _lock.release()


def read_within(check: Callable[[], None] = lambda: None) -> GpuReading | None:
    """Returns all GPUs now; None also if the driver does not answer in time. Raises the errors of `check`."""
    found: list[GpuReading | None] = []
    thread = threading.Thread(target=lambda: found.append(read_gpus()), name="nvml", daemon=True)
    thread.start()
    until = time.monotonic() + READ_SECONDS
    while thread.is_alive() and time.monotonic() < until:
        check()
        thread.join(_BETWEEN_CHECKS)
    return found[0] if found else None


class _Session(NamedTuple):
    """The module pynvml, a set of events with Xids (None where the driver has no events), and the indices of
    GPUs by their handles.
    """

    nvml: Any
    events: Any
    indices: dict[int | None, int]


@lru_cache(maxsize=1)
def _session() -> _Session:
    import pynvml

    pynvml.nvmlInit()
    events, indices = None, {}
    with suppress(pynvml.NVMLError):
        events = pynvml.nvmlEventSetCreate()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            indices[_address(handle)] = index
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    return _Session(pynvml, events, indices)


def _get(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns a value; None where the GPU or the driver has none. Raises for a GPU that is lost."""
    try:
        return function(*arguments)
    except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired):
        raise
    except nvml.NVMLError:
        return None


def _read(nvml: Any, index: int) -> Gpu:
    try:
        return _values(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index))
    except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired):
        return Gpu(index, is_lost=True)
    except nvml.NVMLError:
        return Gpu(index)


def _values(nvml: Any, index: int, handle: Any) -> Gpu:
    def get(function: Callable[..., Any], *arguments: Any) -> Any:
        return _get(nvml, function, handle, *arguments)

    used, memory = get(nvml.nvmlDeviceGetUtilizationRates), get(nvml.nvmlDeviceGetMemoryInfo)
    power = get(nvml.nvmlDeviceGetPowerUsage)
    pcie = get(nvml.nvmlDeviceGetCurrPcieLinkGeneration), get(nvml.nvmlDeviceGetCurrPcieLinkWidth)
    rows = get(nvml.nvmlDeviceGetRemappedRows)
    processes = get(nvml.nvmlDeviceGetComputeRunningProcesses)
    return Gpu(
        index,
        name=str(get(nvml.nvmlDeviceGetName) or ""),
        utilisation=None if used is None else float(used.gpu),
        memory_activity=None if used is None else float(used.memory),
        memory=None if memory is None else memory.used,
        memory_total=None if memory is None else memory.total,
        temperature=get(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        power=None if power is None else power / 1000,
        clock=get(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        clock_reasons=get(nvml.nvmlDeviceGetCurrentClocksEventReasons),
        pcie=None if None in pcie else pcie,
        links=_links(nvml, handle),
        ecc=get(
            nvml.nvmlDeviceGetTotalEccErrors, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ),
        remapped=None if rows is None else rows[0] + rows[1],
        remap_pending=bool(rows and rows[2]),
        remap_failed=bool(rows and rows[3]),
        recovery=_recovery(nvml, handle),
        processes=None if processes is None else tuple(process.pid for process in processes),
    )


def _links(nvml: Any, handle: Any) -> tuple[int, int] | None:
    states = []
    for link in range(_MOST_LINKS):
        state = _get(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        states.append(bool(state))
    return (sum(states), len(states)) if states else None


def _recovery(nvml: Any, handle: Any) -> int | None:
    values = _get(nvml, nvml.nvmlDeviceGetFieldValues, handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    return None if not values or values[0].nvmlReturn else int(values[0].value.uiVal)


def _collect_xids(session: _Session) -> None:
    """Takes the Xids since the last reading, without a wait."""
    nvml = session.nvml
    while session.events is not None:
        try:
            event = nvml.nvmlEventSetWait(session.events, 0)
        except nvml.NVMLError:
            # No further one: NVMLError_Timeout.
            return
        known = _xids.setdefault(session.indices.get(_address(event.device), 0), [])
        known.append(int(event.eventData))
        del known[:-_MOST_XIDS]


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
