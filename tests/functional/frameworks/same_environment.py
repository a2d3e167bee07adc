"""Compares the environment of ranks over the platforms of rehearsals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PLATFORMS = ("modelarts", "volcano", "mindcluster")
# What a platform tells its nodes, by its own names; a training that reads these runs on that platform alone.
_OF_A_PLATFORM = re.compile(r"(MA|VC|VK|MINDX)_|(WORKSPACE|HOST_IP|XDL_IP|POD_UID)$")
_NEW_EACH_TIME = re.compile(
    r"(MASTER|MS_SCHED|MABOOT_MASTER|MABOOT_CHANNEL)_PORT$|MABOOT_(RUN|SAVE_FILE|RECORDS)$|TORCH_\w+_(TEMP|PIPE)_FILE$"
)
_NAMES = re.compile(r"/ma-job-[0-9a-f]{8}/|/log/[^/]+(?=-node-\d)")  # of the rehearsal, and of its job


def same_everywhere(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a rank on any platform; names of the rehearsal and of its job are the same in each."""
    return {
        name: _NAMES.sub("/NAME/", value)
        for name, value in environ.items()
        if not _OF_A_PLATFORM.match(name) and not _NEW_EACH_TIME.match(name)
    }


def differences(by_platform: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Returns the differences of a rank's environment, or of its training, from ModelArts."""
    first, *others = by_platform
    lines = []
    for platform in others:
        for rank, pair in enumerate(zip(by_platform[first], by_platform[platform])):
            expected, facts = (
                {**facts, **same_everywhere(facts["environ"]), "environ": ""} for facts in pair
            )
            lines += [
                f"{platform}, rank {rank}: {name} is {facts.get(name)!r}, on {first} {expected.get(name)!r}"
                for name in sorted({*expected, *facts})
                if expected.get(name) != facts.get(name) and not _NEW_EACH_TIME.match(name)
            ]
    return lines
