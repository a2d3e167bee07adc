"""Checks of the container: user, directories, disk space, limits; and the places that the doctor checks."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding
from ma_boot.platform.modelarts.job import PLATFORM_GID, PLATFORM_UID, JobEnvironment


@dataclass(frozen=True)
class System:
    """Environment variables and host name of this process, and paths of the machine.

    `places` are mount points with the free space that ModelArts' own check before a job requires, in GB.
    """

    environ: Mapping[str, str]
    hostname: str
    platform: str | None = None
    driver: str = "/usr/local/Ascend/driver"
    devices: str = "/dev"
    sysfs: str = "/sys"
    places: tuple[tuple[str, int], ...] = (("/", 32), ("/cache", 32), ("/dev/shm", 1))


_OWNER = f"{PLATFORM_UID}:{PLATFORM_GID}"
# Name, resource, and the value that ModelArts' own check requires on nodes with InfiniBand.
_LIMITS: tuple[tuple[str, int, int], ...] = (
    ("max locked memory (kB)", resource.RLIMIT_MEMLOCK, 16_000),
    ("open files", resource.RLIMIT_NOFILE, 1_000_000),
    ("stack size (kB)", resource.RLIMIT_STACK, 8_000),
    ("user processes", resource.RLIMIT_NPROC, 1_000_000),
)
# Limits that the kernel counts in bytes.
_IN_BYTES = (resource.RLIMIT_MEMLOCK, resource.RLIMIT_STACK)


def check_user(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks the user, and its access to its home."""
    uid, gid = os.getuid(), os.getgid()
    seen = f"uid {uid}, gid {gid}"
    if uid == PLATFORM_UID and gid == PLATFORM_GID:
        yield Finding("user", OK, seen)
    else:
        yield Finding(
            "user",
            WARNING,
            f"{seen}; ModelArts starts a job's containers as uid {PLATFORM_UID}, gid {PLATFORM_GID}",
            f"test the image as that user (docker run -u {_OWNER} ...); end its Dockerfile with USER ma-user",
        )
    yield check_writable("home", job.home, f"chown -R {_OWNER} {job.home}")


def check_directories(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks the directories that a job writes to."""
    for check, path in (("log", job.log_dir), ("mount", job.mount_path)):
        yield check_writable(check, path, f"chown -R {_OWNER} {path}, in the image or on the storage server")


def check_writable(check: str, path: str, remedy: str) -> Finding:
    """Checks that a file can be created in a directory, or in its first parent that exists."""
    # The root is a parent of absolute paths only, and always exists.
    wanted = place = os.path.abspath(path)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding(check, ERROR, f"{path} cannot be written: {place}: {error.strerror}", remedy)
    return Finding(check, OK, f"{path} can be {'written' if place == wanted else 'created'}")


def check_space(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Checks free space on the mounts that ModelArts checks before a job, and on that of the job's files."""
    for path, least in (*system.places, (job.mount_path, 0)):
        check = f"space {path}"
        if not os.path.isdir(path):
            if least:
                yield Finding(check, OK if path == "/cache" else WARNING, f"{path} does not exist")
            continue
        free, used = shutil.disk_usage(path).free / 1e9, os.statvfs(path)
        inodes = f", {used.f_favail} files" if used.f_files else ""
        seen = f"{free:.1f} GB{inodes} free"
        if free < least:
            yield Finding(check, WARNING, f"{seen}, ModelArts requires {least} GB", _more_space(path))
        else:
            yield Finding(check, OK, seen)


def _more_space(path: str) -> str:
    if path == "/dev/shm":
        return "increase the shared memory (docker run --shm-size), or use fewer data loader workers"
    return "remove what the image does not need; store large data in /cache; at most 500,000 files"


def check_limits(system: System, job: JobEnvironment) -> Iterator[Finding]:
    """Shows resource limits; checks them on nodes with InfiniBand, for which ModelArts requires values."""
    infiniband = os.path.isdir(os.path.join(system.devices, "infiniband"))
    low: list[str] = []
    seen: list[str] = []
    for name, number, least in _LIMITS:
        soft, hard = (
            value // 1024 if number in _IN_BYTES and value != resource.RLIM_INFINITY else value
            for value in resource.getrlimit(number)
        )
        shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
        seen.append(f"{name} {shown}")
        if soft != resource.RLIM_INFINITY and soft < least:
            most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
            low.append(f"{name} {shown} (at most {most}), required {least}")
    if infiniband and low:
        yield Finding(
            "limits",
            WARNING,
            "\n".join(low),
            "raise the limits with `ulimit` in the boot command, or have them raised for the resource pool",
        )
    else:
        yield Finding("limits", OK, ", ".join(seen))
