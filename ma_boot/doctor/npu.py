"""Parses the output of `npu-smi` and `hccn_tool`; the rows of npu-smi's table are read by `metrics.npu_rows`.

The formats are those in Huawei's documents: hccn_tool's `-net_health -g` and `-netdetect -g` (which are also
in MindSpore's guide to distributed training).
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence

from ma_boot.rank_table import Pod, RankTable

_VERSION = re.compile(r"^\|\s*npu-smi\s+(\S+)", re.MULTILINE)
_HEALTH = re.compile(r"net health status:\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)
_NETDETECT = re.compile(r"netdetect address:\s*([0-9a-fA-F.:]+)", re.IGNORECASE)


def tool_version(text: str) -> str:
    """The version of npu-smi, from the header of its table."""
    found = _VERSION.search(text)
    return found.group(1) if found else "unknown"


def net_health(text: str) -> str:
    """The status, such as `Success` or `Fault`; empty if there is none."""
    found = _HEALTH.search(text)
    return found.group(1) if found else ""


def netdetect_address(text: str) -> str:
    """The address that a card is configured to detect; empty if there is none."""
    found = _NETDETECT.search(text)
    return found.group(1) if found else ""


def peers(table: RankTable, own: Pod) -> Dict[int, List[str]]:
    """For the index of each own card, the addresses of the cards with the same index in the other pods.

    These are the pairs that MindSpore's guide recommends to check before a job on several machines.
    """
    others = [pod for pod in table.pods if pod is not own]
    return {
        place: [address for pod in others for address in _address(pod, place)]
        for place in range(len(own.devices))
    }


def _address(pod: Pod, place: int) -> Sequence[str]:
    address: Optional[str] = pod.devices[place].device_ip if place < len(pod.devices) else None
    return (address,) if address else ()
