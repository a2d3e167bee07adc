"""The container itself: user, directories, space, limits."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from typing import Iterator, List, Tuple

from ma_boot.doctor.findings import ERROR, OK, WARNING, Finding, Patient
from ma_boot.image.facts import PLATFORM_GID, PLATFORM_UID
from ma_boot.modelarts import JobEnvironment

_OWNER = f"{PLATFORM_UID}:{PLATFORM_GID}"
# The name, the resource, and what ModelArts' check wants of nodes with InfiniBand.
_LIMITS: Tuple[Tuple[str, int, int], ...] = (
    ("max locked memory (kB)", resource.RLIMIT_MEMLOCK, 16_000),
    ("open files", resource.RLIMIT_NOFILE, 1_000_000),
    ("stack size (kB)", resource.RLIMIT_STACK, 8_000),
    ("user processes", resource.RLIMIT_NPROC, 1_000_000),
)
_IN_BYTES = (resource.RLIMIT_MEMLOCK, resource.RLIMIT_STACK)


def user(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Who runs here, and whether the home is theirs."""
    uid, gid = os.getuid(), os.getgid()
    seen = f"uid {uid}, gid {gid}"
    if uid == PLATFORM_UID and gid == PLATFORM_GID:
        yield Finding("user", OK, seen)
    else:
        yield Finding(
            "user",
            WARNING,
            f"{seen}; ModelArts starts a job's containers as uid {PLATFORM_UID}, gid {PLATFORM_GID}",
            f"try the image as that user: docker run -u {_OWNER} ...; USER ma-user ends its Dockerfile",
        )
    yield writable("home", job.home, f"chown -R {_OWNER} {job.home}")


def directories(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """The directories that a job writes to."""
    for check, path in (("log", job.log_dir), ("mount", job.mount_path)):
        yield writable(check, path, f"chown -R {_OWNER} {path}, in the image or on the storage's server")


def writable(check: str, path: str, remedy: str) -> Finding:
    """Whether a file can be made in a directory, or in what would hold it."""
    place = path
    while not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding(check, ERROR, f"{path} cannot be written: {place}: {error.strerror}", remedy)
    return Finding(check, OK, f"{path} can be " + ("written" if place == path else "made"))


def space(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """Free space of the mounts that ModelArts checks before a job, and of the one with the job's files."""
    for path, least in (*patient.places, (job.mount_path, 0)):
        check = f"space {path}"
        if not os.path.isdir(path):
            if least:
                yield Finding(check, OK if path == "/cache" else WARNING, f"{path} is not there")
            continue
        free, used = shutil.disk_usage(path).free / 1e9, os.statvfs(path)
        inodes = f", {used.f_favail} files" if used.f_files else ""
        seen = f"{free:.1f} GB{inodes} free"
        if free < least:
            yield Finding(check, WARNING, f"{seen}, ModelArts wants {least} GB", _room(path))
        else:
            yield Finding(check, OK, seen)


def _room(path: str) -> str:
    if path == "/dev/shm":
        return "give more shared memory (docker run --shm-size), or let the data loaders use less"
    return "remove what the image does not need; put large data into /cache; not over 500,000 files"


def limits(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    """`ulimit`; ModelArts' values hold for nodes with InfiniBand, so elsewhere they are only told."""
    infiniband = os.path.isdir(os.path.join(patient.devices, "infiniband"))
    low: List[str] = []
    seen: List[str] = []
    for name, number, least in _LIMITS:
        soft, hard = (
            value // 1024 if number in _IN_BYTES and value != resource.RLIM_INFINITY else value
            for value in resource.getrlimit(number)
        )
        shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
        seen.append(f"{name} {shown}")
        if soft != resource.RLIM_INFINITY and soft < least:
            most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
            low.append(f"{name} {shown} (at most {most}), wanted {least}")
    if infiniband and low:
        yield Finding(
            "limits",
            WARNING,
            "\n".join(low),
            "ask for a higher `ulimit` in the pool, or raise it in the boot command",
        )
    else:
        yield Finding("limits", OK, ", ".join(seen))
