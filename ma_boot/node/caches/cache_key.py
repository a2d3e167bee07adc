"""The key of a compile cache: a digest of the code, and one of the software and hardware below it.

A cache has machine code, so a start with other software or another processor must not find it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ma_boot.report.support.machine import read_cann

DIGITS = 16  # hexadecimal ones of each digest
# PCI vendors of accelerators, Huawei and NVIDIA; classes: "processing accelerator", "display controller".
_VENDORS = ("0x19e5", "0x10de")
_CLASSES = ("0x12", "0x03")
_MOST_TEXT = 1 << 16  # characters of a file in /proc


def cache_key(code: str, software: Mapping[str, str]) -> str:
    """Returns the key for the digest of the code, and facts of the software by name. Pure."""
    text = json.dumps(sorted(software.items()))
    return f"{code}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def read_machine_facts(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Reads what compiled code depends on, apart from the training's packages; runs no program.

    CANN, the drivers, the models of the accelerators and of the processor, the C library. What cannot be read
    is left out.
    """
    system = os.uname()
    facts = {"system": f"{system.sysname} {system.machine}"}
    with suppress(OSError, ValueError):
        facts["libc"] = os.confstr("CS_GNU_LIBC_VERSION") or ""
    facts.update((f"cann {path}", text) for path, text in read_cann(environ).items())
    facts["processor"] = _processor(_text(root / "proc/cpuinfo"))
    facts["nvidia driver"] = _text(root / "proc/driver/nvidia/version").partition("\n")[0]
    facts["accelerators"] = " ".join(sorted(_accelerators(root)))
    return {name: text for name, text in facts.items() if text}


def _processor(text: str) -> str:
    """Returns the model and the instruction sets of the first processor: compilers use `-march=native`."""
    wanted = ("model name", "flags", "features", "cpu implementer", "cpu part")
    first: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in wanted:
            first.setdefault(name.strip().lower(), value.strip())
    return "; ".join(f"{name}: {value}" for name, value in sorted(first.items()))


def _accelerators(root: Path) -> set[str]:
    """Returns the models of the accelerators by their PCI ids, and by the NVIDIA driver."""
    models = set()
    for device in root.glob("sys/bus/pci/devices/*"):
        names = ("vendor", "device", "subsystem_device", "class")
        vendor, model, variant, kind = (_text(device / name).strip() for name in names)
        if vendor in _VENDORS and kind.startswith(_CLASSES):
            models.add(f"{vendor}:{model}:{variant}")
    for information in root.glob("proc/driver/nvidia/gpus/*/information"):
        models.update(line for line in _text(information).splitlines() if line.startswith("Model:"))
    return models


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_TEXT)
    except OSError:
        return ""
