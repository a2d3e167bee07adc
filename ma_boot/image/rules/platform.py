"""ModelArts' rules for images: user, home, directories, shells.

They are from the platform's documents develop-modelarts-0079 (specifications for custom images of training
jobs), docker-modelarts_0029 (migrating an image), develop-modelarts-0104 (environment variables) and
develop-modelarts-1416 (boot command).
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional

from ma_boot.image.rules.facts import ImageFacts, Inside, Rule, error, remedy_for, warning
from ma_boot.modelarts import PLATFORM_GID, PLATFORM_HOME, PLATFORM_UID, Finding

# Where the platform mounts, or what every program expects: path, states that are wrong, rule.
_MODELARTS = f"{PLATFORM_HOME}/modelarts"


def user(facts: ImageFacts) -> Iterator[Finding]:
    """The default user has uid 1000 (rule 1 of the specifications)."""
    name = facts.user.partition(":")[0]
    accounts = facts.inside.accounts if facts.inside else ()
    if name and not name.isdecimal() and facts.inside and facts.inside.passwd_closed:
        return  # who that is, only /etc/passwd could tell
    uid = int(name) if name.isdecimal() else next((a.uid for a in accounts if a.name == name), None)
    if uid != PLATFORM_UID and (uid is not None or facts.inside is not None or not name):
        shown = f"USER {facts.user}" + (f" has uid {uid}" if uid is not None else " is not in /etc/passwd")
        evidence = shown if name else "no USER: the image starts as root"
        yield error(
            "user", f"{evidence}; ModelArts expects uid {PLATFORM_UID}", "end the Dockerfile with USER 1000"
        )


def account(facts: ImageFacts) -> Iterator[Finding]:
    """uid 1000 has an account with ModelArts' group and home; the names do not matter."""
    if facts.inside is None:
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


def home(facts: ImageFacts) -> Iterator[Finding]:
    """uid 1000 can enter its home and write to it, and no volume is mounted over it."""
    state = facts.inside.home if facts.inside else "ok"
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
    states: Dict[str, str] = dict(facts.inside.places) if facts.inside else {}
    for path in (_MODELARTS, "/cache", "/user", "/user/config"):
        state = states.get(path, "missing")
        if state == "file":
            yield error(
                "directory", f"{path} is a file; the platform mounts a directory there", f"RUN rm {path}"
            )
        elif state == "closed" and path == _MODELARTS and facts.inside and facts.inside.home != "closed":
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
    inside: Optional[Inside] = facts.inside
    if inside is None and "exec format error" in facts.refusal:
        yield warning(
            "inside",
            f"the contents were not checked: this engine cannot run {facts.architecture}",
            "check the image on such a machine, or register qemu-user-static with binfmt",
        )
    elif inside is None:
        yield error(
            "shell",
            f"/bin/sh does not run: {facts.refusal}",
            remedy_for(facts, facts.refusal, "install a POSIX shell as /bin/sh, and bash"),
        )
    elif "bash" not in inside.programs:
        yield error("shell", "no bash, which runs the boot command and .sh files", "install the package bash")


RULES: List[Rule] = [user, account, home, places, shell]
