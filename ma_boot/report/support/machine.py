"""Versions of software on this machine, and what its cards report."""

from __future__ import annotations

import glob
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ma_boot import __version__
from ma_boot.processes.tool import GAVE_UP, NOT_STARTED, run_tool
from ma_boot.report.files import read_end

# Seconds for each tool; npu-smi is slow while the NPUs are busy, and hangs with a broken driver.
TOOL_SECONDS = 15.0
_TOOLS: Mapping[str, tuple[str, ...]] = {"npu-smi": ("info",), "nvidia-smi": ()}
_PACKAGES = (
    "torch", "torch-npu", "mindspore", "mindformers", "transformers", "deepspeed", "accelerate", "ray",
    "numpy",
)  # fmt: skip
# Directories of CANN by its own variables, and where it is usually installed.
_CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_CANN_PLACES = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/latest")
_VERSION_FILES = ("version.cfg", "version.info", "*-linux/ascend_toolkit_install.info")
_DRIVER = "/usr/local/Ascend/driver/version.info"
MOST_OF_VERSION = 4096  # bytes of a version file


def versions(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the versions on this machine, from metadata: no package is imported."""
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {
        "ma_boot": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "packages": found,
        "cann": read_cann(environ),
    }


def read_cann(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the contents of the version files of CANN and the driver, by path."""
    homes = dict.fromkeys([*filter(None, map(environ.get, _CANN_VARIABLES)), *_CANN_PLACES])
    patterns = [os.path.join(glob.escape(home), name) for home in homes for name in _VERSION_FILES]
    contents = {}
    for file in dict.fromkeys([*(file for pattern in patterns for file in glob.glob(pattern)), _DRIVER]):
        with suppress(OSError):
            contents[file] = read_end(Path(file), MOST_OF_VERSION).strip()
    return contents


def tool_outputs(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the output of the tools of cards that are installed, by the name of their file."""
    outputs = {}
    for name, arguments in _TOOLS.items():
        program = shutil.which(name, path=environ.get("PATH", os.defpath))
        if program is None:
            continue
        code, text = run_tool([program, *arguments], environ, with_stderr=True, seconds=TOOL_SECONDS)
        failed = code in (GAVE_UP, NOT_STARTED)
        outputs[f"{name}.txt"] = f"no output: {text}\n" if failed else f"{text}\nexit code {code}\n"
    return outputs
