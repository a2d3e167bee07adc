"""What the tools of NPUs and GPUs print, and whether a card works.

The tables of `npu-smi info` differ between releases (21 to 26) in width and columns, so a row is taken apart
at its bars: `| NPU Name | Health | Power Temp ... |`, then each chip:
`| Chip [Phy-ID] | Bus-Id | AICore ... |`.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ma_boot.metrics.record import CardSample

GPU_QUERY = (
    "utilization.gpu", "utilization.memory", "memory.used", "memory.total", "temperature.gpu", "power.draw",
    "pcie.link.gen.current", "pcie.link.width.current",
)  # fmt: skip
BUSY_PERCENT = 5.0
_OF_OF = re.compile(r"\b(\d{1,9})\s*/\s*(\d{1,9})\b")
_LINK = re.compile(r"link status:\s*(\w+)", re.IGNORECASE)


class NpuRow(NamedTuple):
    """A chip in the table: number and name of its card, physical number of the chip, and what it does."""

    npu: int
    name: str
    physical: int
    sample: CardSample


def npu_rows(table: str) -> List[NpuRow]:
    """The chips in the output of `npu-smi info`, in its order, which is that of the container's devices."""
    rows: List[NpuRow] = []
    card: Optional[Tuple[int, str, str, Optional[float], Optional[float]]] = None
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        words = cells[0].split() if len(cells) == 3 else []
        if not words or not words[0].isdecimal():
            continue
        if cells[1].isalpha() and cells[1] != "NA" and len(words) > 1:
            power, temperature = (*map(_number, cells[2].split()), None, None)[:2]
            card = (int(words[0]), words[1], cells[1], power, temperature)
        elif card is not None:
            npu, name, health, power, temperature = card
            used, total = _memory(cells[2])
            utilisation = _number(cells[2].split()[0]) if cells[2] else None
            sample = CardSample(len(rows), utilisation, used, total, temperature, power, health)
            physical = int(words[1]) if len(words) > 1 and words[1].isdecimal() else npu
            rows.append(NpuRow(npu, name, physical, sample))
            card = None
    return rows


def gpu_samples(text: str) -> List[CardSample]:
    """The GPUs that `nvidia-smi --query-gpu=... --format=csv,noheader,nounits` prints for `GPU_QUERY`."""
    found: List[CardSample] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(GPU_QUERY):
            continue
        values: Dict[str, Optional[float]] = {name: _number(cell) for name, cell in zip(GPU_QUERY, cells)}
        generation, width = values["pcie.link.gen.current"], values["pcie.link.width.current"]
        found.append(
            CardSample(
                len(found),
                values["utilization.gpu"],
                _whole(values["memory.used"]),
                _whole(values["memory.total"]),
                values["temperature.gpu"],
                values["power.draw"],
                link=None if generation is None or width is None else f"gen{generation:.0f} x{width:.0f}",
                memory_activity=values["utilization.memory"],
            )
        )
    return found


def link_state(text: str) -> Optional[str]:
    """`UP` or `DOWN`, as `hccn_tool -i N -link -g` prints it (`link status: UP`)."""
    found = _LINK.search(text)
    return found.group(1).upper() if found else None


def works(card: CardSample) -> bool:
    """Whether a card computes; a rank that waits for it is no hang then.

    A GPU counts as in use while a kernel of NCCL spins, waiting for another rank: there the memory tells.
    """
    used = card.utilisation if card.memory_activity is None else card.memory_activity
    return used is not None and used >= BUSY_PERCENT


def _memory(cell: str) -> Tuple[Optional[int], Optional[int]]:
    """MiB used and in all: of the last memory that the chip has, which is HBM where it has both."""
    pairs = [(int(used), int(total)) for used, total in _OF_OF.findall(cell) if int(total)]
    return pairs[-1] if pairs else (None, None)


def _number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:  # -, NA, [N/A], [Not Supported]
        return None


def _whole(value: Optional[float]) -> Optional[int]:
    return None if value is None else int(value)
