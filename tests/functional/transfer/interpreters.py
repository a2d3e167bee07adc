"""Python interpreters of training code, and their environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import obs

from tests.conftest import CREDENTIALS
from tests.obs import MemoryObs
from tests.unit.project.imports import ROOT


def pythons() -> list[str]:
    """Returns this interpreter, and one of each other version from 3.7 on that pyenv has."""
    by_minor = {sys.version_info[1]: sys.executable}
    for python in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")):
        by_minor.setdefault(int(python.parts[-3].split(".")[1]), str(python))
    return [python for minor, python in sorted(by_minor.items()) if minor >= 7]


def environment(server: MemoryObs) -> dict[str, str]:
    """Returns the variables of training code that reaches the server; of other packages it has only the SDK."""
    paths = [ROOT / "ma_boot" / "for_training", Path(obs.__file__).parents[1]]
    return {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OBS_ENDPOINT": server.url,
        **CREDENTIALS,
    }
