"""ModelArts' rules for images, as functions from facts to findings.

The platform's own documents: develop-modelarts-0079 (specifications for custom images of training jobs),
docker-modelarts_0029 (migrating an image), develop-modelarts-0104 (environment variables),
develop-modelarts-1416 (boot command).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional

from ma_boot.image.facts import PLATFORM_GID, PLATFORM_HOME, PLATFORM_UID, ImageFacts, Inside

GB = 10**9
SIZE_LIMIT = 30 * GB
SIZE_ADVISED = 15 * GB
# Two that the platform documents for users, though they begin with its prefix.
ALLOWED_MA = {"MA_DETECT_TRAIN_INJECT_CODE", "MA_HANG_DETECT_TIME"}


@dataclass(frozen=True)
class Finding:
    """A rule that the image breaks: what was found, and what to do about it.

    `severity` is `error` where a job would fail or be refused, else `warning`.
    """

    rule: str
    severity: str
    evidence: str
    remedy: str


Rule = Callable[[ImageFacts], Iterator[Finding]]


def error(rule: str, evidence: str, remedy: str) -> Finding:
    """A finding with which a job fails, or is refused."""
    return Finding(rule, "error", evidence, remedy)


def warning(rule: str, evidence: str, remedy: str) -> Finding:
    """A finding with which a job may run."""
    return Finding(rule, "warning", evidence, remedy)


def user(facts: ImageFacts) -> Iterator[Finding]:
    """Rule 1 of the specifications: the default user is the one with uid 1000."""
    name = facts.user.partition(":")[0]
    accounts = facts.inside.accounts if facts.inside else ()
    uid = int(name) if name.isdecimal() else next((a.uid for a in accounts if a.name == name), None)
    if uid != PLATFORM_UID and (uid is not None or facts.inside is not None or not name):
        shown = f"USER {facts.user}" + (f" has uid {uid}" if uid is not None else " is not in /etc/passwd")
        evidence = shown if name else "no USER: the image starts as root"
        yield error(
            "user", f"{evidence}; ModelArts expects uid {PLATFORM_UID}", "end the Dockerfile with USER 1000"
        )


def account(facts: ImageFacts) -> Iterator[Finding]:
    """ma-user, with its group and home, by number: the names do not matter."""
    if facts.inside is None:
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
            f"usermod -g {PLATFORM_GID} {own.name}, and chgrp the files of its home; "
            "on Debian the group exists as `users`",
        )
    if own.home.rstrip("/") != PLATFORM_HOME:
        yield error(
            "home",
            f"the home of {own.name} (uid {PLATFORM_UID}) is {own.home}; ModelArts expects {PLATFORM_HOME}",
            f"usermod -d {PLATFORM_HOME} {own.name}",
        )


def home(facts: ImageFacts) -> Iterator[Finding]:
    """uid 1000 enters its home and writes there, and nothing is mounted over it."""
    found = facts.inside.home if facts.inside else "ok"
    remedy = f"RUN mkdir -p {PLATFORM_HOME} && chown 1000:100 {PLATFORM_HOME} && chmod 750 {PLATFORM_HOME}"
    meaning = {"missing": "does not exist", "closed": "cannot be entered by uid 1000"}
    if found != "ok":
        yield error("home", f"{PLATFORM_HOME} {meaning.get(found, 'cannot be written by uid 1000')}", remedy)
    hidden = [
        volume for volume in facts.volumes if (PLATFORM_HOME + "/").startswith(volume.rstrip("/") + "/")
    ]
    if hidden:
        yield error("home", f"VOLUME {hidden[0]} is mounted over the home", f"take VOLUME {hidden[0]} away")
    if facts.workdir.rstrip("/") != PLATFORM_HOME:
        yield warning(
            "workdir",
            f"WORKDIR is {facts.workdir}; the boot command must run in {PLATFORM_HOME}",
            f"WORKDIR {PLATFORM_HOME}",
        )


def toolkit(facts: ImageFacts) -> Iterator[Finding]:
    """ma_boot answers as uid 1000."""
    if facts.inside is None:
        return
    found = facts.inside.toolkit
    if found is None:
        yield error(
            "toolkit",
            "no ma_boot: neither /opt/ma_boot nor on PATH",
            "build with ma_boot's Dockerfile and BASE_IMAGE=<this image>",
        )
    elif not found.runs:
        yield error(
            "toolkit",
            f"{found.prefix} does not run: {found.answer}",
            "make /opt/ma_boot again with ma_boot's Dockerfile; TOOLKIT_PYTHON is 3.9 or later",
        )


def protected_variables(facts: ImageFacts) -> Iterator[Finding]:
    """develop-modelarts-0104: names that begin with MA_, and ENABLE_HTTPS, belong to the platform."""
    for name in sorted(facts.environ):
        if (name.startswith("MA_") and name not in ALLOWED_MA) or name == "ENABLE_HTTPS":
            yield error(
                "variable", f"ENV {name} belongs to the platform", f"take ENV {name} out of the Dockerfile"
            )


def shell(facts: ImageFacts) -> Iterator[Finding]:
    """The probe could run at all, and the boot command has its shells."""
    inside: Optional[Inside] = facts.inside
    if inside is None and "exec format error" in facts.refusal:
        yield warning(
            "inside",
            f"the inside was not examined: this engine cannot run {facts.architecture}",
            "check it on such a machine, or register qemu-user-static for binfmt here",
        )
    elif inside is None:
        yield error(
            "shell", f"/bin/sh does not start: {facts.refusal}", "install a POSIX shell as /bin/sh, and bash"
        )
    elif "bash" not in inside.programs:
        yield error(
            "shell",
            "no bash: the boot command and .sh files are run by it",
            "install the package bash",
        )


GENERAL: List[Rule] = [user, account, home, toolkit, protected_variables, shell]
