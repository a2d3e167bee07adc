"""The Ascend cards of this machine: addresses by hccn_tool or `/etc/hccn.conf`, super pods by npu-smi."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Sequence, Tuple

from ma_boot.errors import ConfigError, InputMissing
from ma_boot.rank_table import SuperPod

TOOL_SECONDS = 30.0  # npu-smi is slow while the NPUs are busy
MOST_DEVICES = 16  # of a server: A3
_CONF_ADDRESS = r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$"
_TOOL_ADDRESS = r"ipaddr\s*:\s*(\S+)"
_SDID = r"(?m)^\s*SDID\s*:\s*(\d+)\s*$"
_SUPER_POD = r"(?m)^\s*Super Pod ID\s*:\s*(\S+)\s*$"


def card_addresses(devices: Sequence[int], conf: Path) -> Dict[int, str]:
    """The addresses by physical device, of `devices` only if it is not empty and hccn_tool is on PATH.

    Without hccn_tool they are read from `conf`, in lines such as `address_0=192.98.92.100`. Raises
    `ConfigError` if the tool does not answer, `InputMissing` if there is neither the tool nor the file.
    """
    tool = shutil.which("hccn_tool")
    if tool is not None:
        asked = {
            device: _ask(tool, "-i", str(device), "-ip", "-g") for device in devices or range(MOST_DEVICES)
        }
        found = {device: tool_address(said) for device, said in asked.items()}
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


def own_super_pod(devices: Sequence[int]) -> SuperPod:
    """The super pod with the cards of this machine, by physical number: `devices`, or all if it is empty.

    Raises `InputMissing` without npu-smi, `ConfigError` with what npu-smi said if that is no super pod.
    """
    tool = shutil.which("npu-smi")
    if tool is None:
        raise InputMissing("no npu-smi on PATH: it tells the super pod, and the SDID of each card in it")
    chips = chips_in(_ask(tool, "info", "-m"))
    missing = [device for device in devices if device not in chips]
    if missing or not chips:
        what = ", ".join(map(str, missing)) or "any card"
        raise ConfigError(f"npu-smi info -m does not show {what}; found: {sorted(chips)}")
    found = {device: _place(tool, *chips[device]) for device in devices or sorted(chips)}
    pods = sorted({pod for _, pod in found.values()})
    if len(pods) > 1:
        raise ConfigError(f"the cards are in the super pods {', '.join(pods)}: expected one")
    return SuperPod(pods[0], {device: sdid for device, (sdid, _) in found.items()})


def chips_in(text: str) -> Dict[int, Tuple[str, str]]:
    """NPU and chip of each card by its physical number, from `npu-smi info -m`.

    That is the column `Chip Phy-ID`, or `Chip Logic ID` where a release has no other.
    """
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if "NPU ID" in line), len(lines))
    columns = re.split(r"\s{2,}", lines[head].strip()) if lines[head:] else []
    names = ["NPU ID", "Chip ID", "Chip Phy-ID" if "Chip Phy-ID" in columns else "Chip Logic ID"]
    if not set(names) <= set(columns):
        return {}
    places = [columns.index(name) for name in names]
    found = {}
    for words in map(str.split, lines[head + 1 :]):
        values = [words[place] for place in places if place < len(words)]
        if len(values) == len(places) and all(map(str.isdecimal, values)):  # an MCU has no number
            found[int(values[2])] = (values[0], values[1])
    return found


def _place(tool: str, npu: str, chip: str) -> Tuple[str, str]:
    """The SDID of a chip, and the id of its super pod."""
    words = ("info", "-t", "spod-info", "-i", npu, "-c", chip)
    text = _ask(tool, *words)
    sdid, pod = re.search(_SDID, text), re.search(_SUPER_POD, text)
    if sdid is None or pod is None:
        said = " ".join(text.split())[:200] or "nothing"
        raise ConfigError(f"npu-smi {' '.join(words)}: expected SDID and Super Pod ID of an A3, found {said}")
    return sdid.group(1), pod.group(1)


def _ask(tool: str, *words: str) -> str:
    argv = [tool, *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{' '.join(argv)} did not answer within {TOOL_SECONDS:.0f} s") from error
    return done.stdout
