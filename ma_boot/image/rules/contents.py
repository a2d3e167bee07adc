"""Rules for the contents of an image: Python environments, architecture, size, drivers, set-uid files."""

from __future__ import annotations

from typing import Iterator, List, Mapping, Optional, Sequence

from ma_boot.image.rules.facts import (
    ARCHITECTURES,
    GB,
    ImageFacts,
    Rule,
    docker_platform,
    error,
    remedy_for,
    some,
    warning,
)
from ma_boot.modelarts import PLATFORM_HOME, Finding

INSTALLATIONS = ("anaconda", "anaconda3", "miniconda3", "miniforge3")  # of conda, in the home
SIZE_LIMIT, SIZE_ADVISED = 30 * GB, 15 * GB  # develop-modelarts-0079
# Set-uid and set-gid programs of the distributions.
STOCK_SET_ID = {
    "chage", "chfn", "chsh", "crontab", "dbus-daemon-launch-helper", "expiry", "fusermount", "fusermount3",
    "gpasswd", "mount", "newgrp", "pam_timestamp_check", "passwd", "pkexec", "polkit-agent-helper-1",
    "ssh-agent", "ssh-keysign", "su", "umount", "unix_chkpwd", "usernetctl", "utempter", "wall", "write",
    "userhelper", "staprun",
}  # fmt: skip


def environments(facts: ImageFacts) -> Iterator[Finding]:
    """The environment that the image selects exists, and every python runs (develop-modelarts-1416)."""
    if facts.inside is None:
        return
    given = facts.environ.get("ANACONDA_DIR", "").rstrip("/")
    roots = [given] if given else [f"{PLATFORM_HOME}/{name}" for name in INSTALLATIONS]
    name = facts.environ.get("DEFAULT_CONDA_ENV_NAME")
    pythons = facts.inside.environments
    listed = ", ".join(python.prefix for python in pythons) or "none"
    selected = [root if name == "base" else f"{root}/envs/{name}" for root in roots]
    barred = dict(facts.inside.barred)
    if name and not {python.prefix for python in pythons}.intersection(selected):
        yield from _no_such_environment(name, roots, barred, listed)
    for python in pythons:
        if not python.runs:
            report = error if python.prefix in selected else warning
            again = f"create {python.prefix} again in this image: a copied environment keeps its old paths"
            yield report(
                "environment",
                f"{python.prefix}/bin/python does not run: {python.answer}",
                remedy_for(facts, python.answer, again),
            )
    on_path = facts.inside.path_python
    if not pythons and not name and (on_path is None or not on_path.runs):
        yield error(
            "environment",
            "no Python for the training: neither a conda environment nor one on PATH",
            "add requirements.txt or a conda installer to image/environment, or use a base with Python",
        )


def _no_such_environment(
    name: str, roots: Sequence[str], barred: Mapping[str, str], listed: str
) -> Iterator[Finding]:
    root = roots[0]
    if root in barred and barred[root] != PLATFORM_HOME:
        yield error(
            "environment",
            f"ANACONDA_DIR={root} cannot be reached by uid 1000: {barred[root]} is closed to others",
            f"RUN chmod o+x {barred[root]} (what is below stays as it is), or install below {PLATFORM_HOME}",
        )
    elif root not in barred:
        place = root if name == "base" else f"{root}/envs/{name}"
        yield error(
            "environment",
            f"DEFAULT_CONDA_ENV_NAME={name}, but there is no {place}/bin/python; found: {listed}",
            "set ANACONDA_DIR and DEFAULT_CONDA_ENV_NAME to an environment that exists, or create it",
        )


def architecture(facts: ImageFacts, wanted: Optional[str]) -> Iterator[Finding]:
    """The image is built for the architecture of the servers (most Ascend servers are ARM)."""
    machine = ARCHITECTURES.get(facts.inside.machine, "") if facts.inside else ""
    if machine and machine != facts.architecture:
        yield error(
            "architecture",
            f"the image says that it is for {facts.architecture}, but its programs are for {machine}",
            "build it from a base for the right platform: without --platform, or with "
            f"--platform {docker_platform(facts.architecture)} and a BASE_IMAGE that has it",
        )
    elif wanted and facts.architecture != wanted:
        yield error(
            "architecture",
            f"the image is for {facts.architecture}, the job's servers are {wanted}",
            f"ma_boot image build --platform {docker_platform(wanted)}, with a BASE_IMAGE for this platform",
        )


def size(facts: ImageFacts) -> Iterator[Finding]:
    """ModelArts limits images to 30 GB and recommends at most 15 GB; a GB is 10^9 bytes."""
    remedy = "remove caches and build tools (`docker history` shows the layers), or use a smaller base"
    if facts.size > SIZE_LIMIT:
        yield error("size", f"{facts.size / GB:.1f} GB; ModelArts rejects more than 30 GB", remedy)
    elif facts.size > SIZE_ADVISED:
        yield warning("size", f"{facts.size / GB:.1f} GB; ModelArts recommends at most 15 GB", remedy)


def driver(facts: ImageFacts) -> Iterator[Finding]:
    """ModelArts mounts the host's driver; one in the image would hide it, or not match the kernel."""
    files = facts.inside.driver_files if facts.inside else ()
    own = [file for file in files if "/stubs/" not in file and "/compat/" not in file]
    if own:
        yield error(
            "driver",
            f"driver files: {some(own)}",
            "remove them: ModelArts mounts the host's driver (/usr/local/nvidia, /usr/local/Ascend/driver)",
        )


def set_id(facts: ImageFacts) -> Iterator[Finding]:
    """sudo is not supported, and set-uid programs beyond the distribution's can be a way to root."""
    files = facts.inside.set_id_files if facts.inside else ()
    own = [file for file in files if file.rpartition("/")[2] not in STOCK_SET_ID]
    if own:
        yield warning("set-uid", f"set-uid or set-gid files: {some(own)}", f"chmod ug-s {' '.join(own[:3])}")


RULES: List[Rule] = [environments, size, driver, set_id]
