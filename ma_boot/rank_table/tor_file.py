"""The file of switches that Volcano's controller writes beside a table (`ranktable_tor.json`).

It is the only one of its files with the names of pods, so it tells a pod on which server it is. It is always
packed, and its status stays `initializing`.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional

from ma_boot.rank_table.packing import is_packed, unpacked

TOR_NAME = "ranktable_tor.json"


def is_tor(document: Mapping[str, Any]) -> bool:
    """Whether it is a file of switches: of all documents with servers, it alone names pods."""
    listed = document.get("server_list")
    return isinstance(listed, list) and any(isinstance(one, dict) and "pod_name" in one for one in listed)


def server_of(pod: str, content: bytes) -> Optional[str]:
    """The `server_id` of the pod; None if it is not in the file, or the file is not whole."""
    try:
        document = json.loads(unpacked(content) if is_packed(content) else content)
        servers = document["server_list"] or ()
        found = {str(server["server_id"]) for server in servers if server["pod_name"] == pod}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found.pop() if len(found) == 1 else None
