"""How to install what only some commands need, into the environment that runs this."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys


def how_to_install(extra: str) -> str:
    """The command that adds the packages of an extra, by the installer that made this environment."""
    packages = shlex.join(packages_of(extra))
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx inject ma-boot {packages}"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def packages_of(extra: str) -> list[str]:
    """The requirements of an extra; where ma_boot was not installed, the extra itself."""
    from importlib import metadata  # 30 modules, for an error only

    try:
        requirements = metadata.requires("ma-boot") or []
    except metadata.PackageNotFoundError:
        requirements = []
    marked = re.compile(rf"([^;]+?) *; *extra *== *['\"]{re.escape(extra)}['\"]")
    matches = filter(None, map(marked.fullmatch, requirements))
    return [match[1] for match in matches] or [f"ma-boot[{extra}]"]
