"""Rules for the contents of an image: files, variables, Python environments, size, boot command."""

from __future__ import annotations

from typing import Iterator, List, Optional

from ma_boot.image.facts import GB, ImageFacts, docker_platform
from ma_boot.image.platform_rules import Rule, error, warning
from ma_boot.modelarts import PLATFORM_HOME, Finding
from ma_boot.redact import masked

SIZE_LIMIT, SIZE_ADVISED = 30 * GB, 15 * GB  # develop-modelarts-0079
SYSTEM_DIRECTORIES = ("/usr/bin", "/bin")
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
    root = facts.environ.get("ANACONDA_DIR", f"{PLATFORM_HOME}/anaconda3").rstrip("/")
    name = facts.environ.get("DEFAULT_CONDA_ENV_NAME")
    found = facts.inside.environments
    listed = ", ".join(python.prefix for python in found) or "none"
    selected = root if name == "base" else f"{root}/envs/{name}"
    if name and selected not in [python.prefix for python in found]:
        yield error(
            "environment",
            f"DEFAULT_CONDA_ENV_NAME={name}, but there is no {selected}/bin/python; found: {listed}",
            "set ANACONDA_DIR and DEFAULT_CONDA_ENV_NAME to an environment that exists, or create it",
        )
    for python in found:
        if not python.runs:
            report = error if python.prefix == selected else warning
            yield report(
                "environment",
                f"{python.prefix}/bin/python does not run: {python.answer}",
                f"create {python.prefix} again in this image: a copied environment keeps its old paths",
            )
    on_path = facts.inside.path_python
    if not found and not name and (on_path is None or not on_path.runs):
        yield error(
            "environment",
            "no Python for the training: neither a conda environment nor one on PATH",
            "add requirements.txt or a conda installer to image/environment, or use a base with Python",
        )


def architecture(facts: ImageFacts, wanted: Optional[str]) -> Iterator[Finding]:
    """The image is built for the architecture of the servers (most Ascend servers are ARM)."""
    if wanted and facts.architecture != wanted:
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
            f"driver files: {_some(own)}",
            "remove them: ModelArts mounts the host's driver (/usr/local/nvidia, /usr/local/Ascend/driver)",
        )


def set_id(facts: ImageFacts) -> Iterator[Finding]:
    """sudo is not supported, and set-uid programs beyond the distribution's can be a way to root."""
    files = facts.inside.set_id_files if facts.inside else ()
    own = [file for file in files if file.rpartition("/")[2] not in STOCK_SET_ID]
    if own:
        yield warning("set-uid", f"set-uid or set-gid files: {_some(own)}", f"chmod ug-s {' '.join(own[:3])}")


def search_paths(facts: ImageFacts) -> Iterator[Finding]:
    """PATH has the system's directories; PATH and LD_LIBRARY_PATH have only absolute ones."""
    environ = facts.environ
    path = environ.get("PATH", "").split(":")
    lost = [directory for directory in SYSTEM_DIRECTORIES if directory not in path]
    if lost and environ.get("PATH") is not None:
        yield error(
            "path",
            f"PATH={environ['PATH']} lacks {', '.join(lost)}",
            "extend PATH instead of replacing it: ENV PATH=/your/bin:$PATH",
        )
    for name in ("PATH", "LD_LIBRARY_PATH"):
        odd = [entry or "(empty)" for entry in environ.get(name, "/").split(":") if not entry.startswith("/")]
        if odd:
            yield warning(
                "path",
                f"{name} has entries relative to the current directory: {', '.join(odd)}",
                f"use only absolute directories in {name}, and no leading, trailing or double colon",
            )
    root = environ.get("ANACONDA_DIR", f"{PLATFORM_HOME}/anaconda")
    libraries = [
        e for e in environ.get("LD_LIBRARY_PATH", "").split(":") if e.startswith(root) or "/envs/" in e
    ]
    if libraries:
        yield warning(
            "path",
            f"LD_LIBRARY_PATH has {libraries[0]}: bash and ma_boot would load the environment's libraries",
            "remove it: ma_boot sets it for the training processes only",
        )


def variables(facts: ImageFacts) -> Iterator[Finding]:
    """Variables that should not be set for every process of every job."""
    environ = facts.environ
    if "RANK_TABLE_FILE" in environ:
        yield error(
            "rank-table",
            f"ENV RANK_TABLE_FILE={environ['RANK_TABLE_FILE']} is baked in; the platform sets it",
            "remove ENV RANK_TABLE_FILE from the Dockerfile",
        )
    for name in ("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD"):
        if environ.get(name):
            yield warning(
                "variable",
                f"ENV {name} affects every program of the image",
                f"install into the environment instead, or set {name} in the boot command",
            )
    if not environ.get("PYTHONUNBUFFERED"):
        yield warning(
            "unbuffered",
            "PYTHONUNBUFFERED is not set: the last lines of the log may be lost",
            "ENV PYTHONUNBUFFERED=1",
        )
    for name, value in masked(environ).items():
        if value != environ[name]:
            yield error(
                "secret",
                f"ENV {name} looks like a credential (value not shown), visible to all who pull the image",
                "remove it, build without cache, change the credential, and set it in the job form instead",
            )
    if facts.inside and not facts.inside.zone:
        yield warning(
            "time-zone",
            f"TZ={environ.get('TZ')}, but no such zone is installed: times would be UTC",
            "install the package tzdata, or remove TZ",
        )


def boot_command(facts: ImageFacts) -> Iterator[Finding]:
    """The boot command of `--command` starts as uid 1000 (docker-modelarts_0029 recommends to try it)."""
    if facts.entrypoint:
        yield warning(
            "entry-point",
            f"ENTRYPOINT {' '.join(facts.entrypoint)}: the platform runs the boot command instead of it",
            "use ENTRYPOINT [], and move its setup into ENV or the boot command",
        )
    run = facts.started
    if run is None:
        return
    tail = run.output.splitlines()[-1] if run.output else "no output"
    if not run.found:
        yield error(
            "command",
            f"{run.command}: {tail}",
            "use a program that the image contains; `conda activate` needs an interactive shell",
        )
    elif "permission denied" in run.output.lower():
        line = next(line for line in run.output.splitlines() if "permission denied" in line.lower())
        yield error("command", f"{run.command}: {line}", "make it readable or writable for uid 1000")
    elif run.exit_code in (126, 127):
        yield warning(
            "command",
            f"{run.command} exited with {run.exit_code}: {tail}",
            "nothing to do if the missing file is part of the training code in OBS",
        )


def _some(files: List[str]) -> str:
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


CONTENT_RULES: List[Rule] = [environments, size, driver, set_id, search_paths, variables, boot_command]
