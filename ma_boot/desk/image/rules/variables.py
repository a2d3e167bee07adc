"""Rules for the variables of an image, which every process of every job inherits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ma_boot.desk.image.rules.facts import ImageFacts, error, warning
from ma_boot.platform.modelarts.findings import Finding
from ma_boot.platform.modelarts.job import PLATFORM_HOME

# Names with the platform's prefix that it documents for users.
ALLOWED_MA = {"MA_DETECT_TRAIN_INJECT_CODE", "MA_HANG_DETECT_TIME"}
SYSTEM_DIRECTORIES = ("/usr/bin", "/bin")
# Options with which ma_boot boots no job.
_NO_JOB = {"MABOOT_LOCAL", "MABOOT_PLAN", "MABOOT_JSON"}
_OFF = {"", "0", "false", "no", "off", "f", "n"}
# Variables of one process or one job, which ma_boot or the platform sets.
_OF_A_JOB = re.compile(
    r"(VC|VK|BATCH|DLS|OMPI|PMIX|PMI)_.*|(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|RANK_(ID|SIZE)|(ASCEND_)?DEVICE_ID"
    r"|MASTER_(ADDR|PORT)|MS_(ROLE|SCHED_HOST|SCHED_PORT|WORKER_NUM|NODE_ID)|ROUTE_PLAN|RANK_AFTER_ACC"
)
_PROXY = re.compile(r"(https?|ftp|all)_proxy", re.IGNORECASE)


def protected(facts: ImageFacts) -> Iterator[Finding]:
    """Names that begin with MA_, and ENABLE_HTTPS, are reserved (develop-modelarts-0104)."""
    for name in sorted(facts.environ):
        if (name.startswith("MA_") and name not in ALLOWED_MA) or name == "ENABLE_HTTPS":
            yield error(
                "variable",
                f"ENV {name} is reserved for the platform",
                f"remove ENV {name} from the Dockerfile",
            )
    if "RANK_TABLE_FILE" in facts.environ:
        yield error(
            "rank-table",
            f"ENV RANK_TABLE_FILE={facts.environ['RANK_TABLE_FILE']} is baked in; the platform sets it",
            "remove ENV RANK_TABLE_FILE from the Dockerfile",
        )


def of_a_job(facts: ImageFacts) -> Iterator[Finding]:
    """Variables of one job or one process are not in the image."""
    for name, value in sorted(facts.environ.items()):
        if name in _NO_JOB:
            if value.lower() not in _OFF:
                yield error(
                    "variable",
                    f"ENV {name}={value}: no job would be booted by this image",
                    f"remove ENV {name} from the Dockerfile",
                )
        elif name.startswith("MABOOT_") and value:
            option = "--" + name[len("MABOOT_") :].lower().replace("_", "-")
            yield warning(
                "variable",
                f"ENV {name} sets {option} for every job of this image",
                f"set {name} in the job form, or {option} in the boot command",
            )
        elif _OF_A_JOB.fullmatch(name) and value:
            yield warning(
                "variable",
                f"ENV {name}={value} belongs to one job or process; the platform and ma_boot set it",
                f"remove ENV {name} from the Dockerfile",
            )


def everywhere(facts: ImageFacts) -> Iterator[Finding]:
    """Variables that change every program of the image."""
    environ = facts.environ
    for name in ("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "BASH_ENV"):
        if environ.get(name):
            yield warning(
                "variable",
                f"ENV {name} affects every program of the image",
                f"install into the environment instead, or set {name} in the boot command",
            )
    proxies = sorted(name for name in environ if _PROXY.fullmatch(name) and environ[name])
    if proxies:
        yield warning(
            "proxy",
            f"ENV {', '.join(proxies)}: OBS and the package index would be asked through a proxy that "
            "ModelArts may not reach",
            "use --build-arg for the build alone (docker knows these names), and no ENV",
        )
    home = environ.get("HOME", "").rstrip("/")
    # ma_boot replaces the home /root by the platform's.
    if home not in ("", "/root", PLATFORM_HOME):
        yield warning(
            "home",
            f"ENV HOME={home}: programs keep their files there rather than in {PLATFORM_HOME}",
            "remove ENV HOME: /etc/passwd has the home",
        )
    if not environ.get("PYTHONUNBUFFERED"):
        yield warning(
            "unbuffered",
            "PYTHONUNBUFFERED is not set: the last lines of the log may be lost",
            "ENV PYTHONUNBUFFERED=1",
        )


def named_files(facts: ImageFacts) -> Iterator[Finding]:
    """Files that variables name exist: certificates, the time zone."""
    for name, file in facts.inside.unreadable:
        yield error(
            "variable",
            f"ENV {name}={file}, but uid 1000 finds no such file: TLS connections, to OBS too, would fail",
            f"install the package ca-certificates, or remove ENV {name}",
        )
    if not facts.inside.zone:
        yield warning(
            "time-zone",
            f"TZ={facts.environ.get('TZ')}, but no such zone is installed: times would be UTC",
            "install the package tzdata, or remove TZ",
        )


def search_paths(facts: ImageFacts) -> Iterator[Finding]:
    """PATH has the system's directories; PATH and LD_LIBRARY_PATH have only absolute ones."""
    environ = facts.environ
    path = environ.get("PATH", "").split(":")
    links = facts.inside.links
    reached = {links.get(directory, directory) for directory in path}
    lost = [directory for directory in SYSTEM_DIRECTORIES if links.get(directory, directory) not in reached]
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
    root = environ.get("ANACONDA_DIR") or f"{PLATFORM_HOME}/anaconda"
    libraries = [
        e for e in environ.get("LD_LIBRARY_PATH", "").split(":") if e.startswith(root) or "/envs/" in e
    ]
    if libraries:
        yield warning(
            "path",
            f"LD_LIBRARY_PATH has {libraries[0]}: bash and ma_boot would load the environment's libraries",
            "remove it: ma_boot sets it for the training processes only",
        )
