"""A fake `libnvidia-ml.so.1`, compiled, in place of NVIDIA's driver: the way through pynvml is the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")


class FakeGpus:
    """GPUs of the fake, with the values of a recorded H100 except those that `set` gives."""

    def __init__(self, directory: Path) -> None:
        self._values: dict[str, object] = {}
        self._file = directory / "fake-nvml.txt"
        library = directory / "fake-nvml" / "libnvidia-ml.so.1"
        library.parent.mkdir(parents=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
        # The loader reads LD_LIBRARY_PATH at the start of a process.
        self.variables = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(self._file)}
        self.set()

    def set(self, **values: object) -> None:
        """Changes values: `ecc=1` of all GPUs, `gpu_3_ecc=1` of one."""
        for name, value in values.items():
            index, _, of_gpu = name.removeprefix("gpu_").partition("_")
            self._values[f"{index}.{of_gpu}" if name.startswith("gpu_") else name] = value
        text = "".join(f"{name} {value}\n" for name, value in self._values.items())
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.rename(self._file)
