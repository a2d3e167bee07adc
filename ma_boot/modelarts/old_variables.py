"""The variables of ModelArts' first version (V1), as those of today. Pure."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Tuple

REPLACEMENTS = {
    "DLS_TASK_NUMBER": "MA_NUM_HOSTS",
    "DLS_TASK_INDEX": "VC_TASK_INDEX",
    "BATCH_TASK_LOG_PATH": "MA_LOG_DIR",
    "VK_TASK_INDEX": "VC_TASK_INDEX",  # Volcano's own name
}
_HOSTS = re.compile(r"BATCH_CUSTOM(\d+)_HOSTS")


def with_replacements(environ: Mapping[str, str]) -> Tuple[Dict[str, str], Tuple[str, ...]]:
    """The environment with today's names, where only the old ones are set; and what was read instead.

    `BATCH_CUSTOM<N>_HOSTS` (`host:port` of node N) together are `VC_WORKER_HOSTS`. The source of the pairs is
    ModelArts' guide on permission problems; `BATCH_JOB_ID` and `BATCH_TASK_CURRENT_INSTANCE` are read beside
    their successors, as the platform's launcher reads them.
    """
    result = dict(environ)
    replaced: List[str] = []
    for old, new in REPLACEMENTS.items():
        if environ.get(old) and not result.get(new):
            result[new] = environ[old]
            replaced.append(f"{old} for {new}")
    numbers = sorted(int(match.group(1)) for match in map(_HOSTS.fullmatch, environ) if match)
    if numbers and not environ.get("VC_WORKER_HOSTS"):
        hosts = (environ[f"BATCH_CUSTOM{number}_HOSTS"].rpartition(":")[0] for number in numbers)
        result["VC_WORKER_HOSTS"] = ",".join(hosts)
        replaced.append("BATCH_CUSTOM<N>_HOSTS for VC_WORKER_HOSTS")
    return result, tuple(replaced)
