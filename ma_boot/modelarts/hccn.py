"""The network addresses of the Ascend cards, from hccn_tool or `/etc/hccn.conf`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Sequence

from ma_boot.errors import ConfigError, InputMissing

HCCN_TOOL_SECONDS = 30.0
MOST_DEVICES = 16  # of a server: A3
_CONF_ADDRESS = r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$"
_TOOL_ADDRESS = r"ipaddr\s*:\s*(\S+)"


def card_addresses(devices: Sequence[int], conf: Path) -> Dict[int, str]:
    """The addresses by physical device, of `devices` only if it is not empty and hccn_tool is on PATH.

    Without hccn_tool they are read from `conf`, in lines such as `address_0=192.98.92.100`. Raises
    `ConfigError` if the tool does not answer, `InputMissing` if there is neither the tool nor the file.
    """
    import shutil  # slow to import, and hardly any command asks for addresses

    tool = shutil.which("hccn_tool")
    if tool is not None:
        found = {device: _ask(tool, device) for device in devices or range(MOST_DEVICES)}
        return {device: address for device, address in found.items() if address}
    try:
        text = conf.read_text(encoding="utf-8")
    except OSError as error:
        raise InputMissing(f"no hccn_tool on PATH, and {conf}: {error.strerror}") from error
    return {int(device): address for device, address in re.findall(_CONF_ADDRESS, text)}


def tool_address(output: str) -> str:
    """The address that `hccn_tool -i N -ip -g` prints (`ipaddr:192.98.92.100`); empty if there is none."""
    found = re.search(_TOOL_ADDRESS, output)
    return found.group(1) if found else ""


def _ask(tool: str, device: int) -> str:
    import subprocess

    argv = [tool, "-i", str(device), "-ip", "-g"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HCCN_TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{' '.join(argv)} did not answer within {HCCN_TOOL_SECONDS:.0f} s") from error
    return tool_address(done.stdout)
