"""Commands that install the extras of ma_boot into the environment that runs this."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys

# Where pyproject.toml is if ma_boot runs from its sources. Never the name: no index has it, and a stranger
# may register it.
_SOURCES = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))


def install_command(extra: str) -> str:
    """Returns the command that adds the packages of an extra, by the installer that made this environment."""
    packages = shlex.join(packages_of(extra))
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx inject ma-boot {packages}"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def packages_of(extra: str) -> list[str]:
    """Returns the requirements of an extra; the extra of the sources if ma_boot was not installed."""
    # Loads 30 modules, and is needed for an error only.
    from importlib import metadata

    try:
        requirements = metadata.requires("ma-boot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    marked = re.compile(rf"([^;]+?) *; *extra *== *['\"]{re.escape(extra)}['\"]")
    matches = filter(None, map(marked.fullmatch, requirements))
    return [match[1] for match in matches] or [f"{_SOURCES}[{extra}]"]
