"""Rules for credentials: in variables, in the commands of the layers, in files. No finding shows a value."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List

from ma_boot.image.rules.facts import ImageFacts
from ma_boot.image.rules.found import Rule, error, some, warning
from ma_boot.modelarts import Finding
from ma_boot.redact import masked, without_logins, without_secrets

_ARGUMENTS = re.compile(r"(?<!\S)([A-Za-z_]\w*)=(?![\"']?\$)(\S+)")  # of a command in the history: NAME=value
_REMEDY = "build without cache, change the credential, and set it in the job form instead"


def in_variables(facts: ImageFacts) -> Iterator[Finding]:
    """No variable is a credential."""
    for name, value in masked(facts.environ).items():
        if value != facts.environ[name]:
            yield error(
                "secret",
                f"ENV {name} looks like a credential (value not shown), visible to all who pull the image",
                f"remove it, {_REMEDY}",
            )


def in_history(facts: ImageFacts) -> Iterator[Finding]:
    """No command of a layer, which `docker history` shows, has a credential in a build argument or a URL."""
    names: List[str] = []
    logins = False
    for command in facts.history:
        if command.startswith(("/bin/sh -c #(nop)  ENV", "ENV ")):  # a variable, which has its own finding
            continue
        arguments = dict(_ARGUMENTS.findall(command))
        names += [name for name, value in masked(arguments).items() if value != arguments[name]]
        logins = logins or without_logins(command) != command
        if without_secrets(command, []) != command:
            names.append("")
    shown = sorted(set(filter(None, names)))
    if logins or shown:
        what = some(shown) if shown else "a URL with a login"
        yield error(
            "secret",
            f"`docker history` shows {what} (value not shown) in the command of a layer",
            f"use it in an earlier stage alone, or `RUN --mount=type=secret`; {_REMEDY}",
        )
    elif names:
        yield warning(
            "secret",
            "`docker history` shows what looks like a credential in the command of a layer (value not shown)",
            f"if it is one: use it in an earlier stage alone; {_REMEDY}",
        )


def in_files(facts: ImageFacts) -> Iterator[Finding]:
    """No file is a well-known store of credentials, or has the text of one."""
    if not facts.searched and facts.inside is not None:
        yield warning(
            "secret",
            "files were not searched for credentials: the image has no find or no grep, or they failed",
            "look into its layers yourself: keys, .git, .env, .netrc, .obsutilconfig",
        )
    found: Dict[str, List[str]] = {}
    for kind, file in facts.credential_files:
        found.setdefault(kind, []).append(file)
    for kind, files in found.items():
        yield error(
            "secret",
            f"{kind} (not shown) in {some(files)}, visible to all who pull the image",
            "keep it out of the build context (.dockerignore), remove it in the same layer, and change it",
        )


RULES: List[Rule] = [in_variables, in_history, in_files]
