"""Parsers of the output of `npu-smi` and `hccn_tool`. Pure.

The tables of `npu-smi info` differ between releases (21 to 26) in width and columns, so a row is split at its
bars. A card has one row, and each of its chips another one:

    | NPU  Name          | Health       | Power(W)   Temp(C)   ...              |
    | Chip [Phy-ID]      | Bus-Id       | AICore(%)  Memory-Usage(MB)  ...      |
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ma_boot.node.observe.metrics.record import CardSample

# Percent of the time; a card that is used less is idle.
BUSY_PERCENT = 5.0
# `3161 / 65536`: used and total, of a memory.
_USED_OF_TOTAL = re.compile(r"\b(\d{1,9})\s*/\s*(\d{1,9})\b")
_LINK = re.compile(r"link status:\s*(\w+)", re.IGNORECASE)


class NpuRow(NamedTuple):
    """A chip in the table: number and name of its card, physical number of the chip, and its values."""

    npu: int
    name: str
    physical: int
    sample: CardSample


class NpuState(NamedTuple):
    """The NPUs of a node, and the number of processes that use them; None if the tool does not show it."""

    rows: list[NpuRow]
    processes: int | None


class _NpuCard(NamedTuple):
    """The row of a card, which is followed by the row of its chip."""

    npu: int
    name: str
    health: str
    power: float | None
    temperature: float | None


def parse_npu_state(table: str) -> NpuState:
    """Parses the output of `npu-smi info`.

    The processes follow the chips, or a line for each NPU without one.
    """
    process_rows = [cells for cells in map(_cells, table.splitlines()) if len(cells) == 4]
    used = sum(cells[1].isdecimal() for cells in process_rows)
    has_processes = any(cells[1] == "Process id" for cells in process_rows)
    return NpuState(parse_npu_rows(table), used if has_processes else None)


def parse_npu_rows(table: str) -> list[NpuRow]:
    """Parses the chips in the output of `npu-smi info`; their order is that of the container's devices."""
    rows: list[NpuRow] = []
    card: _NpuCard | None = None
    for line in table.splitlines():
        cells = _cells(line)
        words = cells[0].split() if len(cells) == 3 else []
        if not words or not words[0].isdecimal():
            continue
        # The second cell of a card is its health, that of a chip its address on the bus.
        if cells[1].isalpha() and cells[1] != "NA" and len(words) > 1:
            power, temperature = (*map(_number, cells[2].split()), None, None)[:2]
            card = _NpuCard(int(words[0]), words[1], cells[1], power, temperature)
        elif card is not None:
            physical = int(words[1]) if len(words) > 1 and words[1].isdecimal() else card.npu
            rows.append(NpuRow(card.npu, card.name, physical, _npu_sample(len(rows), card, cells[2])))
            card = None
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().split("|")[1:-1]]


def _npu_sample(index: int, card: _NpuCard, cell: str) -> CardSample:
    """The values of a chip; `cell` has its utilisation and its memories, of which HBM is the last one."""
    memories = [(int(used), int(total)) for used, total in _USED_OF_TOTAL.findall(cell) if int(total)]
    used, total = memories[-1] if memories else (None, None)
    return CardSample(
        index,
        utilisation=_number(cell.split()[0]) if cell else None,
        memory=used,
        memory_total=total,
        temperature=card.temperature,
        power=card.power,
        health=card.health,
    )


def parse_link(text: str) -> str | None:
    """Returns `UP` or `DOWN` from the output of `hccn_tool -i N -link -g` (`link status: UP`)."""
    match = _LINK.search(text)
    return match.group(1).upper() if match else None


def is_busy(card: CardSample) -> bool:
    """Tells if a card computes; a rank that waits for a busy card does not hang.

    A GPU has a utilisation of 100 % while a kernel of NCCL spins, waiting for another rank. Such a kernel
    does not use the memory, so the activity of the memory decides where it is known.
    """
    used = card.utilisation if card.memory_activity is None else card.memory_activity
    return used is not None and used >= BUSY_PERCENT


def _number(text: str) -> float | None:
    """A number; None for the tools' forms of an unknown value: `-`, `NA`, `[N/A]`, `[Not Supported]`."""
    try:
        return float(text)
    except ValueError:
        return None
