"""ModelArts' rules for the contents of an image: user, home, directories, shells, Python, drivers.

Also its architecture, its size and set-uid files. The rules are from the platform's documents
develop-modelarts-0079 (specifications for custom images of training jobs), docker-modelarts_0029 (migrating
an image), develop-modelarts-0104 (environment variables) and develop-modelarts-1416 (boot command).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from posixpath import commonpath, dirname
from typing import Callable

from ma_boot.desk.image.rules.facts import (
    ARCHITECTURES,
    GB,
    ImageFacts,
    Python,
    docker_platform,
    error,
    remedy_for,
    some,
    warning,
)
from ma_boot.platform.modelarts.findings import Finding
from ma_boot.platform.modelarts.job import PLATFORM_GID, PLATFORM_HOME, PLATFORM_UID

_MODELARTS = f"{PLATFORM_HOME}/modelarts"
# Usual names of conda's installation in the home directory.
INSTALLATIONS = ("anaconda", "anaconda3", "miniconda3", "miniforge3")
SIZE_LIMIT, SIZE_ADVISED = 30 * GB, 15 * GB  # develop-modelarts-0079
# Set-uid and set-gid programs of the distributions.
STOCK_SET_ID = {
    "chage", "chfn", "chsh", "crontab", "dbus-daemon-launch-helper", "expiry", "fusermount", "fusermount3",
    "gpasswd", "mount", "newgrp", "pam_timestamp_check", "passwd", "pkexec", "polkit-agent-helper-1",
    "ssh-agent", "ssh-keysign", "su", "umount", "unix_chkpwd", "usernetctl", "utempter", "wall", "write",
    "userhelper", "staprun",
}  # fmt: skip


def user(facts: ImageFacts) -> Iterator[Finding]:
    """The default user has uid 1000 (rule 1 of the specifications)."""
    name = facts.user.partition(":")[0]
    accounts = facts.inside.accounts
    if name and not name.isdecimal() and facts.inside.passwd_closed:
        return  # who that is, only /etc/passwd could tell
    uid = int(name) if name.isdecimal() else next((a.uid for a in accounts if a.name == name), None)
    if uid != PLATFORM_UID and (uid is not None or not facts.refusal or not name):
        shown = f"USER {facts.user}" + (f" has uid {uid}" if uid is not None else " is not in /etc/passwd")
        evidence = shown if name else "no USER: the image starts as root"
        yield error(
            "user", f"{evidence}; ModelArts expects uid {PLATFORM_UID}", "end the Dockerfile with USER 1000"
        )


def account(facts: ImageFacts) -> Iterator[Finding]:
    """uid 1000 has an account with ModelArts' group and home; the names do not matter."""
    if facts.refusal:
        return
    if facts.inside.passwd_closed:
        yield error(
            "account",
            "/etc/passwd cannot be read by uid 1000, so it has no name",
            "RUN chmod 644 /etc/passwd",
        )
        return
    own = next((a for a in facts.inside.accounts if a.uid == PLATFORM_UID), None)
    line = f"ma-user:x:{PLATFORM_UID}:{PLATFORM_GID}::{PLATFORM_HOME}:/bin/bash"
    if own is None:
        yield error(
            "account", f"/etc/passwd has no uid {PLATFORM_UID}", f"add the line {line} to /etc/passwd"
        )
        return
    if own.gid != PLATFORM_GID:
        yield warning(
            "group",
            f"{own.name} (uid {PLATFORM_UID}) has the primary group {own.gid}; expected {PLATFORM_GID}",
            f"usermod -g {PLATFORM_GID} {own.name}, and chgrp the files in its home; "
            "on Debian the group is `users`",
        )
    if own.home.rstrip("/") != PLATFORM_HOME:
        yield error(
            "home",
            f"the home of {own.name} (uid {PLATFORM_UID}) is {own.home}; ModelArts expects {PLATFORM_HOME}",
            f"usermod -d {PLATFORM_HOME} {own.name}",
        )


def group(facts: ImageFacts) -> Iterator[Finding]:
    """The group that `USER` names is that of the platform; without one, it is the account's."""
    name = facts.user.partition(":")[2]
    # An image with an unknown group does not start.
    gid = int(name) if name.isdecimal() else facts.inside.groups.get(name, PLATFORM_GID)
    if name and gid != PLATFORM_GID:
        yield warning(
            "group",
            f"USER {facts.user} has the group {gid}; expected {PLATFORM_GID}",
            f"end the Dockerfile with USER {PLATFORM_UID}:{PLATFORM_GID}",
        )


def home(facts: ImageFacts) -> Iterator[Finding]:
    """uid 1000 can enter its home and write to it, and no volume is mounted over it."""
    state = facts.inside.home
    remedy = f"RUN mkdir -p {PLATFORM_HOME} && chown 1000:100 {PLATFORM_HOME} && chmod 750 {PLATFORM_HOME}"
    meaning = {"missing": "does not exist", "closed": "cannot be entered by uid 1000"}
    if state != "ok":
        yield error("home", f"{PLATFORM_HOME} {meaning.get(state, 'cannot be written by uid 1000')}", remedy)
    hidden = [
        volume for volume in facts.volumes if (PLATFORM_HOME + "/").startswith(volume.rstrip("/") + "/")
    ]
    if hidden:
        yield error("home", f"VOLUME {hidden[0]} is mounted over the home", f"remove VOLUME {hidden[0]}")
    if facts.workdir.rstrip("/") != PLATFORM_HOME:
        yield warning(
            "workdir",
            f"WORKDIR is {facts.workdir}; the boot command must run in {PLATFORM_HOME}",
            f"WORKDIR {PLATFORM_HOME}",
        )


def places(facts: ImageFacts) -> Iterator[Finding]:
    """The directories in which the platform mounts, and /tmp, can be used by uid 1000."""
    states = facts.inside.places
    for path in (_MODELARTS, "/cache", "/user", "/user/config"):
        state = states.get(path, "missing")
        if state == "file":
            yield error(
                "directory", f"{path} is a file; the platform mounts a directory there", f"RUN rm {path}"
            )
        elif state == "closed" and path == _MODELARTS and facts.inside.home != "closed":
            yield error(
                "directory",
                f"{path} cannot be entered by uid 1000: neither the code nor the log directory is reached",
                f"RUN chown 1000:100 {path} && chmod 750 {path}, or remove it: the platform creates it",
            )
    if states.get("/tmp", "ok") != "ok":
        yield warning(
            "directory",
            f"/tmp is {states['/tmp']} for uid 1000: many programs keep files there",
            "RUN mkdir -p /tmp && chmod 1777 /tmp",
        )


def shell(facts: ImageFacts) -> Iterator[Finding]:
    """The probe could run, and there are a POSIX shell and bash."""
    if "exec format error" in facts.refusal:
        yield warning(
            "inside",
            f"the contents were not checked: this engine cannot run {facts.architecture}",
            "check the image on such a machine, or register qemu-user-static with binfmt",
        )
    elif facts.refusal:
        yield error(
            "shell",
            f"/bin/sh does not run: {facts.refusal}",
            remedy_for(facts, facts.refusal, "install a POSIX shell as /bin/sh, and bash"),
        )
    elif "bash" not in facts.inside.programs:
        yield error("shell", "no bash, which runs the boot command and .sh files", "install the package bash")


def environments(facts: ImageFacts) -> Iterator[Finding]:
    """The environment that the image selects exists, and each python can be used (develop-modelarts-1416)."""
    if facts.refusal:
        return
    inside = facts.inside
    root_given = facts.environ.get("ANACONDA_DIR", "").rstrip("/")
    roots = [root_given] if root_given else [f"{PLATFORM_HOME}/{name}" for name in INSTALLATIONS]
    name = facts.environ.get("DEFAULT_CONDA_ENV_NAME")
    selected = [root if name == "base" else f"{root}/envs/{name}" for root in roots]
    if name and not {python.prefix for python in inside.environments}.intersection(selected):
        listed = ", ".join(python.prefix for python in inside.environments) or "none"
        yield from _no_such_environment(name, roots, inside.barred, listed)
    for python in inside.environments:
        report = error if python.prefix in selected else warning
        yield from _unusable(facts, python, f"{python.prefix}/bin/python", report)
    yield from _on_path(facts, error if not inside.environments and not name else warning)


Report = Callable[[str, str, str], Finding]


def _on_path(facts: ImageFacts, report: Report) -> Iterator[Finding]:
    """The first python on PATH, and links to one that come before it."""
    inside = facts.inside
    python = inside.path_python
    links = [path for path in inside.barred if path.rpartition("/")[2] in ("python", "python3")]
    links = [
        path for path in links if path not in {f"{env.prefix}/bin/python" for env in inside.environments}
    ]
    for path in links:
        yield report("environment", *_behind(path, inside.barred[path]))
    if python is not None and python.runs:
        yield from _unusable(facts, python, python.prefix, report)
    elif report is error and not links:
        yield error(
            "environment",
            "no Python for the training: neither a conda environment nor one on PATH",
            "add requirements.txt or a conda installer to image/environment, or use a base with Python",
        )


def _unusable(facts: ImageFacts, python: Python, path: str, report: Report) -> Iterator[Finding]:
    """Reports reasons why a training cannot use the python at `path`."""
    barred = facts.inside.barred
    if not python.runs and path in barred:
        yield report("environment", *_behind(path, barred[path]))
    elif not python.runs:
        again = f"create {python.prefix} again in this image: a copied environment keeps its old paths"
        yield report(
            "environment", f"{path} does not run: {python.answer}", remedy_for(facts, python.answer, again)
        )
    elif python.real.startswith("/opt/ma_boot/"):
        yield report(
            "environment",
            f"{path} is the toolkit's own python ({python.real}), which has no packages of the training",
            f"remove {path}, or link it to the training's python",
        )
    elif python.closed_packages:
        yield report(
            "environment",
            f"packages of {path} cannot be read by uid 1000: {some(python.closed_packages)}",
            f"RUN chmod -R a+rX {commonpath([dirname(path) for path in python.closed_packages])}",
        )


def _behind(path: str, closed: str) -> tuple[str, str]:
    """Returns evidence and remedy for a path below a closed directory."""
    return (
        f"{path} cannot be reached by uid 1000: {closed} is closed to others",
        f"RUN chmod o+x {closed} (what is below stays as it is), or install below {PLATFORM_HOME}",
    )


def _no_such_environment(
    name: str, roots: Sequence[str], barred: Mapping[str, str], listed: str
) -> Iterator[Finding]:
    root = roots[0]
    if root in barred and barred[root] != PLATFORM_HOME:
        yield error("environment", *_behind(f"ANACONDA_DIR={root}", barred[root]))
    elif root not in barred:
        place = root if name == "base" else f"{root}/envs/{name}"
        yield error(
            "environment",
            f"DEFAULT_CONDA_ENV_NAME={name}, but there is no {place}/bin/python; found: {listed}",
            "set ANACONDA_DIR and DEFAULT_CONDA_ENV_NAME to an environment that exists, or create it",
        )


def architecture(facts: ImageFacts, wanted: str | None) -> Iterator[Finding]:
    """The image is built for the architecture of the servers (most Ascend servers are ARM)."""
    machine = ARCHITECTURES.get(facts.inside.machine, "")
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
    own = [file for file in facts.inside.driver_files if "/stubs/" not in file and "/compat/" not in file]
    if own:
        yield error(
            "driver",
            f"driver files: {some(own)}",
            "remove them: ModelArts mounts the host's driver (/usr/local/nvidia, /usr/local/Ascend/driver)",
        )


def set_id(facts: ImageFacts) -> Iterator[Finding]:
    """sudo is not supported, and set-uid programs beyond the distribution's can be a way to root."""
    own = [file for file in facts.inside.set_id_files if file.rpartition("/")[2] not in STOCK_SET_ID]
    if own:
        yield warning("set-uid", f"set-uid or set-gid files: {some(own)}", f"chmod ug-s {' '.join(own[:3])}")
