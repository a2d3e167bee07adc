"""What to do about errors that are known: one line of advice for each text found in an output. Pure.

To add one: a pattern as the output has it, and a sentence that says what to do. Sources: ModelArts' trouble
shooting guide, CANN's HCCL fault diagnosis (EI and EJ codes), ModelArts' own launcher.
"""

from __future__ import annotations

import re
from typing import List, Tuple

MOST_ADVICE = 3
ADVICE: Tuple[Tuple[str, str], ...] = (
    (
        r"EI0004|is not a valid real path",
        "HCCL could not read its rank table: RANK_TABLE_FILE must name the file that ma_boot wrote; "
        "does the script, or a sourced file, set it again?",
    ),
    (
        r"EI0014|ranktable config devId",
        "HCCL found another device or address than the rank table has: does the script choose the "
        "device itself? It must take DEVICE_ID as ma_boot sets it, and not touch "
        "ASCEND_RT_VISIBLE_DEVICES",
    ),
    (
        r"EI0017",
        "HCCL misses a field of the rank table: `ma_boot rank-table validate FILE` names all of them",
    ),
    (
        r"EJ0001|previous training process",
        "a process of an earlier start still held the NPU: wait some 15 s, and look for it with `npu-"
        "smi info`",
    ),
    (
        r"Connection (closed|reset) by (remote )?peer|remote worker crashing|Socket Timeout.*store",
        "this rank lost its peer, so mostly another one failed before it: look for the exceptions of the "
        "other ranks, here and in the reports of the other nodes",
    ),
    (
        r"EI0006|Getting socket times out|[Ww]ait for connection.{0,40}time ?out",
        "a rank did not connect in time: look at the logs of the other nodes for the first failure; "
        "HCCL_CONNECT_TIMEOUT must be longer than the nodes' start differs",
    ),
    (
        r"EI0002|[Nn]otify.{0,40}time ?out|HCCL_EXEC_TIMEOUT",
        "a collective operation waited for a rank that did not come: look for the first failure on "
        "the other ranks, and for ranks with fewer steps than others",
    ),
    (
        r"retCode ?= ?0x91",
        "MindSpore could not execute its graph, mostly for want of data or for wrong parameters: look "
        "at the plog (ASCEND_PROCESS_LOG_PATH)",
    ),
    (
        r"No space left on device|\[Errno 28\]",
        "the disk is full: `/cache` is the large one, a tree of more than 500,000 files fills it too, "
        "and inputs, outputs and code share it",
    ),
    (
        r"UpdateTopoState|The scheduler.{0,40}(disconnect|lost|time)",
        "MindSpore's scheduler lost a worker: that worker's log has the cause",
    ),
    (
        r"unrecognized arguments?: .*--(data_url|train_url|init_method|world_size|rank)",
        "the platform appends such arguments: parse with `parse_known_args()`",
    ),
    (
        r"EADDRINUSE|[Aa]ddress already in use",
        "a port was taken: by a process of an earlier start, or by a second job on this machine",
    ),
    (
        r"[Nn]etwork is unreachable|Name or service not known|Temporary failure in name resolution",
        "ModelArts' nodes may have no way to the Internet: take packages and data from OBS",
    ),
    (
        r"libascendcl\.so|libhccl\.so|libge_runner\.so",
        "CANN's libraries were not found: give --source /usr/local/Ascend/ascend-toolkit/set_env.sh, "
        "or the like",
    ),
    (
        r"Permission denied: '?/home/ma-user",
        "the image's user must be uid 1000, and own the directory: `ma-user` of another number may "
        "not write there",
    ),
    (
        r"exec format error|Exec format error",
        "the program is for another kind of processor than this node's (aarch64 or x86_64)",
    ),
    (
        r"Bus error|unable to open shared memory|/dev/shm",
        "/dev/shm may be full: fewer data loader workers",
    ),
    (
        r"The specified key does not exist|NoSuchKey",
        "an object was not there: does the path begin with the bucket?",
    ),
)
_SEARCHES = tuple((re.compile(pattern), sentence) for pattern, sentence in ADVICE)


def advice_for(output: str) -> List[str]:
    """The advice for what an output shows, at most three pieces, each with the text that called for it."""
    found = []
    for pattern, sentence in _SEARCHES:
        match = pattern.search(output)
        if match:
            found.append(f"{match.group(0)}: {sentence}")
    return found[:MOST_ADVICE]
