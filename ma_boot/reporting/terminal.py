"""Lines for a terminal, rendered by rich, which is imported only where they are shown."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from rich.console import RenderableType


def rendered(content: RenderableType, columns: int) -> List[str]:
    """What rich makes of the content, as lines of at most that many columns."""
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=columns, color_system="standard").print(content)
    return text.getvalue().rstrip("\n").split("\n")
