"""Python packages for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path


def wheel(directory: Path) -> str:
    """A package of one module, as `pip wheel` makes it."""
    name = "grown-1.0-py3-none-any.whl"
    info = "grown-1.0.dist-info"
    with zipfile.ZipFile(directory / name, "w") as archive:
        archive.writestr("grown.py", "VALUE = 7\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: grown\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return name
