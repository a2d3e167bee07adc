"""Checks of the GPUs of this container, of torch's CUDA, and of the settings of NCCL."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ma_boot.node.doctor.container import System
from ma_boot.node.environment.extras import install_command
from ma_boot.node.observe.metrics.gpus import Gpu, GpuReading, defects
from ma_boot.node.observe.metrics.nvml import LIBRARY, has_driver, has_package, read_within
from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.processes.control_group import file_text

_TORCH_CUDA = re.compile(r"(?m)^cuda(?::[^=]*)? = '(\d+)\.(\d+)'")
# Values that ModelArts' documents advise for jobs of several nodes over RoCE.
_ROCE = {"NCCL_IB_TC": "128", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TIMEOUT": "22"}
_REPORT = "end the job, so that it gets new pods, and report the card to the platform"
_MIB = 1 << 20


def has_gpus(system: System) -> bool:
    """Returns whether this container has GPUs, or their driver."""
    return bool(_devices(system)) or has_driver()


def _devices(system: System) -> list[str]:
    return glob.glob(os.path.join(system.devices, "nvidia[0-9]*"))


def check_gpus(system: System, job: JobEnvironment, python: str | None) -> Iterator[Finding]:
    """Checks driver, cards, their health and use; `python` is the training's, for its torch."""
    if not has_gpus(system):
        return
    if not has_driver():
        yield Finding(
            "GPU", ERROR, f"{len(_devices(system))} devices, but no {LIBRARY}, the library of the driver",
            "start the container with NVIDIA's runtime and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )  # fmt: skip
        return
    if not has_package():
        yield Finding(
            "GPU", WARNING, "GPUs cannot be read: nvidia-ml-py is not installed",
            f"install it: {install_command('gpu')}",
        )  # fmt: skip
        return
    reading = read_within()
    if reading is None:
        yield Finding(
            "GPU",
            ERROR,
            "the driver of the GPUs does not answer",
            f"{_REPORT}; `nvidia-smi` shows the reason",
        )
        return
    newest = "unknown" if reading.cuda is None else "{}.{}".format(*reading.cuda)
    yield Finding("driver", OK, f"version {reading.driver or 'unknown'}, CUDA up to {newest}")
    yield from judge_gpus(reading, job.device_count)
    yield from judge_visible(system.environ, len(reading.gpus), job.device_count)
    yield from _torch(reading, python)
    if job.node_count > 1:
        yield from check_nccl(system)


def judge_gpus(reading: GpuReading, needed: int | None) -> Iterator[Finding]:
    """Judges the number of cards, their health, their links, and their use by others. Pure."""
    gpus = reading.gpus
    broken = [str(defect) for gpu in gpus for defect in defects(gpu)]
    if broken:
        yield Finding("GPU", ERROR, "\n".join(broken), _REPORT)
    used = [_use(gpu) for gpu in gpus if not gpu.is_free]
    if used:
        yield Finding(
            "GPU", WARNING, "\n".join(used),
            "end these processes, of an earlier start or another container: the training lacks this memory",
        )  # fmt: skip
    down = [gpu for gpu in gpus if gpu.links is not None and gpu.links[0] < gpu.links[1]]
    if down:
        yield Finding(
            "NVLink", WARNING,
            "\n".join(f"GPU {gpu.card}: {_of(gpu.links)} links are up" for gpu in down),
            f"collectives will be slow, or hang: {_REPORT}",
        )  # fmt: skip
    if needed is not None and needed != len(gpus):
        yield Finding(
            "GPU", ERROR if len(gpus) < needed else WARNING,
            f"the driver shows {len(gpus)} cards, MA_NUM_GPUS is {needed}",
            "select cards with --devices: a process without a card cannot start",
        )  # fmt: skip
    if gpus:
        remapped = sum(gpu.remapped or 0 for gpu in gpus)
        links = _of(gpus[0].links) if gpus[0].links is not None else "none"
        yield Finding(
            "GPU", OK,
            f"{len(gpus)} x {gpus[0].name}, NVLinks of each: {links}, remapped rows of memory: {remapped}",
        )  # fmt: skip


def _use(gpu: Gpu) -> str:
    by = f" by process {', '.join(map(str, gpu.processes))}" if gpu.processes else ""
    return f"GPU {gpu.card}: {(gpu.memory or 0) // _MIB} MiB of its memory are in use{by}"


def _of(links: tuple[int, int] | None) -> str:
    return "none" if links is None else f"{links[0]} of {links[1]}"


def judge_visible(environ: Mapping[str, str], cards: int, needed: int | None) -> Iterator[Finding]:
    """Judges `CUDA_VISIBLE_DEVICES`, with so many cards here. Pure."""
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return
    names = [name.strip() for name in value.split(",") if name.strip()]
    # CUDA ignores all after the first invalid number.
    absent = [name for name in names if name.lstrip("-").isdecimal() and not 0 <= int(name) < cards]
    if absent or len(names) < (needed or 0):
        reason = f"GPU {absent[0]} does not exist" if absent else f"MA_NUM_GPUS is {needed}"
        yield Finding(
            # With --devices fewer ones may be right.
            "CUDA", ERROR if absent else WARNING, f"CUDA_VISIBLE_DEVICES={value}, but {reason}",
            "unset it in the image and in the job's environment variables: ma_boot gives each rank its card",
        )  # fmt: skip
    else:
        yield Finding("CUDA", OK, f"CUDA_VISIBLE_DEVICES={value}")


def _torch(reading: GpuReading, python: str | None) -> Iterator[Finding]:
    """Compares torch's CUDA with the driver's, by torch's file `version.py`: an import takes seconds."""
    pattern = "lib/python3*/site-packages/torch/version.py"
    files = sorted(Path(python).parent.parent.glob(pattern)) if python else []
    for file in files[:1]:
        yield from judge_torch(file_text(file), reading.cuda)


def judge_torch(version: str, driver: tuple[int, int] | None) -> Iterator[Finding]:
    """Judges torch's `version.py` beside the newest CUDA of the driver. Pure.

    Within a major version, newer minor versions run with an older driver (CUDA's minor version
    compatibility).
    """
    match = _TORCH_CUDA.search(version)
    if match is None:
        yield Finding(
            "torch", WARNING, "this torch was built without CUDA, so it sees no GPU",
            "install a build for CUDA (download.pytorch.org/whl), or select another environment",
        )  # fmt: skip
        return
    cuda = int(match[1]), int(match[2])
    seen = f"built for CUDA {cuda[0]}.{cuda[1]}"
    if driver is not None and cuda[0] > driver[0]:
        yield Finding(
            "torch", ERROR, f"{seen}, but the driver supports CUDA {driver[0]}.{driver[1]} at most",
            f"install a torch for CUDA {driver[0]}, or use a resource pool with a newer driver",
        )  # fmt: skip
    else:
        yield Finding("torch", OK, seen)


def check_nccl(system: System) -> Iterator[Finding]:
    """Checks the settings of NCCL against the interfaces of this container."""
    interfaces = _names(system.sysfs, "class/net")
    adapters = _names(system.sysfs, "class/infiniband")
    layers = [Path(system.sysfs, f"class/infiniband/{name}/ports/1/link_layer") for name in adapters]
    is_roce = any(file_text(layer).strip() == "Ethernet" for layer in layers)
    yield from judge_nccl(system.environ, interfaces, adapters, is_roce=is_roce)


def _names(sysfs: str, directory: str) -> list[str]:
    path = os.path.join(sysfs, directory)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def judge_nccl(
    environ: Mapping[str, str], interfaces: list[str], adapters: list[str], is_roce: bool = False
) -> Iterator[Finding]:
    """Judges NCCL's variables, which ModelArts and the image set. Pure."""
    problems = False
    for name, here, what in (
        ("NCCL_SOCKET_IFNAME", interfaces, "network interfaces"),
        ("NCCL_IB_HCA", adapters, "InfiniBand or RoCE adapters"),
    ):
        value = environ.get(name, "")
        if value and not _is_matched(value, here):
            problems = True
            yield Finding(
                "NCCL", ERROR if name == "NCCL_SOCKET_IFNAME" else WARNING,
                f"{name}={value}, but the {what} here are {', '.join(here) or 'none'}",
                f"correct or unset {name}: the platform sets it where it is needed",
            )  # fmt: skip
    if adapters and environ.get("NCCL_IB_DISABLE") == "1":
        problems = True
        yield Finding(
            "NCCL", WARNING, f"NCCL_IB_DISABLE=1, but there are adapters: {', '.join(adapters)}",
            "unset it: collectives between nodes are many times faster over them",
        )  # fmt: skip
    elif is_roce:
        unset = [f"{name}={value}" for name, value in _ROCE.items() if not environ.get(name)]
        if unset:
            problems = True
            yield Finding(
                "NCCL", WARNING, f"adapters {', '.join(adapters)}, but not set: {', '.join(unset)}",
                "set them as ModelArts advises for RoCE, if collectives between nodes are slow or time out",
            )  # fmt: skip
    if not problems:
        known = [f"{name}={environ[name]}" for name in sorted(environ) if name.startswith("NCCL_")]
        yield Finding("NCCL", OK, ", ".join(known) or "no variables are set")


def _is_matched(value: str, names: list[str]) -> bool:
    """Returns whether NCCL finds one of the names: by prefix, with `=` by the whole name, with `^` others."""
    mark = value[0] if value[0] in "^=" else ""
    wanted = [name.partition(":")[0] for name in value[len(mark) :].split(",") if name]

    def is_wanted(name: str) -> bool:
        return any(name == one if mark == "=" else name.startswith(one) for one in wanted)

    return any(is_wanted(name) != (mark == "^") for name in names)
