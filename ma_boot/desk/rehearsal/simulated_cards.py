"""The cards of a rehearsed node of which a fault breaks one: a stand-in of `npu-smi` shows them."""

from __future__ import annotations

from pathlib import Path

_TOOLS = "npu-smi-of-rehearsal"  # in the home of the node
_HEALTH = "health-of-card-0"
_HEAD = """\
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
"""
_CARD = """\
| {card:<5} rehearsed           | {health:<13} | -           -                 0    / 0             |
| 0                         | 0000:00:00.0  | -           0    / 0          0    / 0             |
"""
_PROCESSES = """\
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
| No running processes found                                                                     |
"""


def tools_of(home: str) -> str:
    """The directory of the stand-in, for the node's PATH."""
    return f"{home}/{_TOOLS}"


def add_npu_smi(home: str, cards: int) -> None:
    """Gives a node a stand-in that shows so many healthy cards; raises `OSError`."""
    tools = Path(tools_of(home))
    tools.mkdir()
    healths = ["$health", *["OK"] * (cards - 1)]
    rows = [_CARD.format(card=card, health=health) for card, health in enumerate(healths)]
    table = _HEAD + "".join(rows) + _PROCESSES
    script = tools / "npu-smi"
    script.write_text(f'#!/bin/sh\nread -r health <"${{0%/*}}/{_HEALTH}"\ncat <<END\n{table}END\n')
    script.chmod(0o755)
    (tools / _HEALTH).write_text("OK\n")


def break_card(home: str) -> None:
    """Has the stand-in show a broken card from now on; raises `OSError`."""
    (Path(tools_of(home)) / _HEALTH).write_text("Alarm\n")
