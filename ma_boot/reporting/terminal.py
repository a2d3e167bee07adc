"""Lines for a terminal, drawn by rich: loaded only where somebody sees them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from rich.console import RenderableType


def drawn(what: RenderableType, columns: int) -> List[str]:
    """What rich makes of it, as lines of at most that many columns."""
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, force_terminal=True, width=columns, color_system="standard").print(what)
    return text.getvalue().rstrip("\n").split("\n")
