"""Network addresses and super pods of the cards, by `hccn_tool` and `npu-smi`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ma_boot.errors import ConfigError, InputMissing
from ma_boot.platform.rank_table import SuperPod
from ma_boot.processes.tool import GAVE_UP, run_tool

# Cards of the largest server, an A3.
MOST_DEVICES = 16
# Line of hccn.conf, such as `address_0=192.98.92.100`; lines of hccn_tool and of npu-smi.
_CONF_ADDRESS = r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$"
_TOOL_ADDRESS = r"ipaddr\s*:\s*(\S+)"
_SDID = r"(?m)^\s*SDID\s*:\s*(\d+)\s*$"
_SUPER_POD = r"(?m)^\s*Super Pod ID\s*:\s*(\S+)\s*$"


def read_card_addresses(devices: Sequence[int], conf: Path) -> dict[int, str]:
    """Returns the addresses by physical device, with hccn_tool only those of `devices` if there are any.

    Without hccn_tool on PATH they are read from `conf`, in lines such as `address_0=192.98.92.100`.

    Raises:
        ConfigError: the tool does not answer.
        InputMissing: there is neither the tool nor the file.
    """
    tool = shutil.which("hccn_tool")
    if tool is not None:
        outputs = {
            device: _run(tool, "-i", str(device), "-ip", "-g") for device in devices or range(MOST_DEVICES)
        }
        addresses = {device: parse_address(output) for device, output in outputs.items()}
        return {device: address for device, address in addresses.items() if address}
    try:
        text = conf.read_text(encoding="utf-8")
    except OSError as error:
        raise InputMissing(f"no hccn_tool on PATH, and {conf}: {error.strerror}") from error
    return {int(device): address for device, address in re.findall(_CONF_ADDRESS, text)}


def parse_address(output: str) -> str:
    """Returns the address in the output of `hccn_tool -i N -ip -g` (`ipaddr:192.98.92.100`); or empty."""
    match = re.search(_TOOL_ADDRESS, output)
    return match.group(1) if match else ""


def read_super_pod(devices: Sequence[int]) -> SuperPod:
    """Returns the super pod of the cards with these physical numbers, of all cards if there are none.

    Raises:
        InputMissing: there is no npu-smi on PATH.
        ConfigError: the output of npu-smi has no super pod, or several.
    """
    tool = shutil.which("npu-smi")
    if tool is None:
        raise InputMissing("no npu-smi on PATH: it shows the super pod, and the SDID of each card in it")
    chips = parse_chips(_run(tool, "info", "-m"))
    missing = [device for device in devices if device not in chips]
    if missing or not chips:
        what = ", ".join(map(str, missing)) or "any card"
        raise ConfigError(f"npu-smi info -m does not show {what}; found: {sorted(chips)}")
    places = {device: _read_place(tool, *chips[device]) for device in devices or sorted(chips)}
    pods = sorted({pod for _, pod in places.values()})
    if len(pods) > 1:
        raise ConfigError(f"the cards are in the super pods {', '.join(pods)}: expected one")
    return SuperPod(pods[0], {device: sdid for device, (sdid, _) in places.items()})


def parse_chips(text: str) -> dict[int, tuple[str, str]]:
    """Returns NPU and chip by physical number from the output of `npu-smi info -m`.

    The physical number is in the column `Chip Phy-ID`, or in `Chip Logic ID` of releases without it.
    """
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if "NPU ID" in line), len(lines))
    columns = re.split(r"\s{2,}", lines[head].strip()) if lines[head:] else []
    names = ["NPU ID", "Chip ID", "Chip Phy-ID" if "Chip Phy-ID" in columns else "Chip Logic ID"]
    if not set(names) <= set(columns):
        return {}
    places = [columns.index(name) for name in names]
    chips = {}
    for words in map(str.split, lines[head + 1 :]):
        values = [words[place] for place in places if place < len(words)]
        # The MCU of a card has a row, too, but no number.
        if len(values) == len(places) and all(map(str.isdecimal, values)):
            chips[int(values[2])] = (values[0], values[1])
    return chips


def _read_place(tool: str, npu: str, chip: str) -> tuple[str, str]:
    """Returns the SDID of a chip, and the id of its super pod."""
    words = ("info", "-t", "spod-info", "-i", npu, "-c", chip)
    text = _run(tool, *words)
    sdid, pod = re.search(_SDID, text), re.search(_SUPER_POD, text)
    if sdid is None or pod is None:
        shown = " ".join(text.split())[:200] or "nothing"
        raise ConfigError(
            f"npu-smi {' '.join(words)}: expected SDID and Super Pod ID of an A3, found {shown}"
        )
    return sdid.group(1), pod.group(1)


def _run(*argv: str) -> str:
    """Returns the output of a tool with any exit code; raises `ConfigError` without an answer."""
    code, text = run_tool(argv)
    if code == GAVE_UP:
        raise ConfigError(f"{' '.join(argv)}: {text}")
    return text
