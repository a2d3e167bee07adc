"""Digest of what a start runs: code, command, mapping, packages of the image, variables.

Two starts with equal digests run the same. A part that cannot be read has an empty digest: unknown.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ma_boot import __version__
from ma_boot.node.environment.code_digest import digest_of_code
from ma_boot.redact import is_secret
from ma_boot.report.job_ledger import RunDigest

# Variables that a platform or a shell sets anew for each start, and ma_boot's own, which are in the command.
# MABOOT_SUBMISSION is the same in all starts of a job, and another one if a person submits it again.
_OF_A_START = re.compile(
    r"(MA|VC|VK|DLS|MINDX|MABOOT(?!_SUBMISSION$)|KUBERNETES|POD|XDL|S3|OBS|SSH)_"
    r"|BATCH_(TASK|JOB|CURRENT|CUSTOM\d|WORKER)|(NODE|HOST)_(NAME|IP|RANK|ID)$|NODE_RANK$|MASTER_(ADDR|PORT)$"
    r"|(GLOBAL_|LOCAL_|GROUP_)?(RANK|WORLD_SIZE)$|RANK_(ID|SIZE|TABLE_FILE|AFTER_ACC|START|END)$"
    r"|GLOBAL_RANK_TABLE_FILE$|HOSTNAME$|(OLD)?PWD$|SHLVL$|_$|HOME$|USER$|LOGNAME$|WORKSPACE$|ROUTE_PLAN$"
    r"|\w+_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)$"
)


def digest_of(parts: Iterable[str]) -> str:
    """Returns a digest of texts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:16]


def run_digest(
    code: str, command: str, mapping: str | None, python: str, *, environ: Mapping[str, str],
    without: Sequence[str] = (),
) -> RunDigest:  # fmt: skip
    """Returns the digests of a start.

    `code` is the directory of the code, empty if it is not known; `mapping` the file of the path mapping.
    Directories in `without`, such as outputs, are no code.
    """
    variables = sorted(item for item in environ.items() if not _OF_A_START.match(item[0]))
    return RunDigest(
        code=digest_of_code(code, without).digest if code else "",
        command=digest_of([command]),
        mapping=_of_file(mapping) if mapping is not None else digest_of([]),
        image=_of_image(python, environ.get("PYTHONPATH", "")),
        environment=digest_of(f"{name}={_value(name, value)}" for name, value in variables),
    )


def _value(name: str, value: str) -> str:
    """Returns the value of a variable; of a secret 16 bits, which show a change but not the secret."""
    return digest_of([value])[:4] if is_secret(name, value) else value


def _of_file(name: str) -> str:
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def _of_image(python: str, search_path: str) -> str:
    """Returns the digest of the installed packages, by their names and the times of their installation.

    Layers of an image keep these times, so that all containers of it have the same.
    """
    found = [__version__, python]
    places = [
        *Path(python).parent.parent.glob("lib/python3*/site-packages"),
        *map(Path, search_path.split(":")),
    ]
    try:
        for place in sorted(place for place in places if place.is_absolute() and place.is_dir()):
            for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
                dated = entry.name.endswith((".dist-info", ".pth", ".egg-link", ".py", ".so"))
                stamp = entry.stat(follow_symlinks=False).st_mtime_ns // 10**9 if dated else 0
                found.append(f"{place} {entry.name} {stamp}")
    except OSError:
        return ""
    return digest_of(found)
