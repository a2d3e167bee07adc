"""Lines of an event file, as values; a full disk may have cut one short, which is left out."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, Union


def events_in(lines: Iterable[Union[str, bytes]]) -> Iterator[Dict[str, Any]]:
    """The events that are whole."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "kind" in event:
            yield event
