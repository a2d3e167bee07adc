"""The rank table as it comes on the platform: late, first only a status, half written, then completed."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Mapping, Sequence, Tuple

from ma_boot.job import TABLE_NAME


def stages(table: Mapping[str, Any]) -> Tuple[str, ...]:
    """The contents that the file goes through; before the first one it is missing."""
    completed = json.dumps(table, indent=4)
    return ('{"status":"initializing"}', completed[: len(completed) // 2], completed)


def write_late(
    table: Mapping[str, Any], directories: Sequence[str], delay: float, cancel: threading.Event
) -> None:
    """Writes all stages into each directory, the last one `delay` seconds from now, in place as the
    platform's controller does; ends early when cancelled."""
    contents = stages(table)
    for text in contents:
        if cancel.wait(delay / len(contents)):
            return
        for directory in directories:
            Path(directory, TABLE_NAME).write_text(text, encoding="utf-8")
