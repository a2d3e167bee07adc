"""Facts about an image: its metadata and the results of a probe inside. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ma_boot.platform.modelarts.findings import ERROR, WARNING, Finding
from ma_boot.wording import list_first

GB = 10**9
Pairs = tuple[tuple[str, str], ...]
Version = tuple[int, int]  # of glibc
# The first glibc that loads files with the version GLIBC_ABI_DT_RELR.
_COMPACT_RELOCATIONS = (2, 36)
# Label of every container and network that ma_boot creates; leftovers are found by it.
LABEL = "ma_boot"
ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


def docker_platform(architecture: str) -> str:
    """Returns the value of `docker build --platform` for an architecture as in `uname -m`."""
    return {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}.get(architecture, f"linux/{architecture}")


@dataclass(frozen=True)
class Python:
    """An interpreter inside the image; `answer` is its version, or the error.

    `real` is its path with all links resolved, empty if unknown; `closed_packages` are files and directories
    of its packages that cannot be read.
    """

    prefix: str
    runs: bool
    answer: str
    real: str = ""
    closed_packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Account:
    """A line of the image's /etc/passwd."""

    name: str
    uid: int
    gid: int
    home: str


@dataclass(frozen=True)
class Inside:
    """The results of the probe, which runs as uid 1000 without network.

    `machine` is what `uname -m` answers; `home` and the values of `places` are `ok`, `missing`, `closed`,
    `read-only` or `file`. `programs` are the shells found on PATH or in /bin; `links` maps system
    directories that are links to their targets. `boot` is `ma_boot --version` by the first `ma_boot` on
    PATH, `toolkit` the same by /opt/ma_boot, `imports` its import of all that it needs; each is None if
    missing. `barred` are conda's directories and pythons that cannot be reached, each with the directory
    that is closed; `unreadable` are variables that name a missing file. `groups` are the names and
    numbers of /etc/group. `set_id_files` are set-uid and set-gid files; `zone` is False if TZ names
    a time zone that is not installed. `libc` is the version of the image's glibc, `libc_need` the newest that
    a file of the toolkit asks for, and that file; each is None if it is not known.
    """

    accounts: tuple[Account, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    passwd_closed: bool = False
    machine: str = ""
    home: str = "ok"
    places: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    boot: Python | None = None
    boot_has_crlf: bool = False
    toolkit: Python | None = None
    imports: Python | None = None
    environments: tuple[Python, ...] = ()
    barred: Mapping[str, str] = field(default_factory=dict)
    unreadable: Pairs = ()
    path_python: Python | None = None
    set_id_files: tuple[str, ...] = ()
    driver_files: tuple[str, ...] = ()
    zone: bool = True
    libc: Version | None = None
    libc_need: tuple[Version, str] | None = None


@dataclass(frozen=True)
class Started:
    """The trial of a boot command by bash: exit code (None at a timeout) and end of output."""

    command: str
    exit_code: int | None
    output: str


@dataclass(frozen=True)
class ImageFacts:
    """An image; `refusal` is the reason if the probe did not finish and `inside` is therefore unknown.

    `size` is in bytes; `architecture` as in `uname -m`; `command` is that of CMD; `history` are the commands
    of its layers. `exposed_keys` are variables of the user's environment whose values are in the image,
    each with the place; `searched` is False if the files could not be searched.
    """

    name: str
    user: str
    environ: Mapping[str, str]
    entrypoint: tuple[str, ...]
    workdir: str
    volumes: tuple[str, ...]
    architecture: str
    size: int
    stop_signal: str = ""
    command: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    inside: Inside = field(default_factory=Inside)
    refusal: str = ""
    started: Started | None = None
    exposed_keys: Pairs = ()
    searched: bool = True


def from_metadata(name: str, attributes: Mapping[str, Any], history: Sequence[str] = ()) -> ImageFacts:
    """Reads the facts from the engine's description of an image."""
    config = attributes.get("Config") or {}
    variables = (entry.partition("=") for entry in config.get("Env") or ())
    architecture = str(attributes.get("Architecture", ""))
    return ImageFacts(
        name=name,
        user=config.get("User") or "",
        environ={variable: value for variable, _, value in variables},
        entrypoint=tuple(config.get("Entrypoint") or ()),
        workdir=config.get("WorkingDir") or "/",
        volumes=tuple(sorted(config.get("Volumes") or ())),
        architecture=ARCHITECTURES.get(architecture, architecture),
        size=int(attributes.get("Size", 0)),
        stop_signal=config.get("StopSignal") or "",
        command=tuple(config.get("Cmd") or ()),
        labels=dict(config.get("Labels") or {}),
        history=tuple(history),
    )


def parse_probe(text: str) -> Inside | None:
    """Parses the output of `probe.sh`, lines of `name<TAB>value`; unknown lines are ignored.

    Returns None without the last line: the probe failed, and its output must not be taken for facts.
    """
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, tab, value = line.partition("\t")
        if tab:
            lines.setdefault(name, []).append(value)

    def last(name: str, default: str = "") -> str:
        return lines.get(name, [default])[-1]

    if "end" not in lines:
        return None
    accounts = (_account(line) for line in lines.get("passwd", ()))
    groups = (line.split(":") for line in lines.get("group", ()))
    real, closed = dict(_pairs(lines.get("real", ()))), _pairs(lines.get("closed_package", ()))

    def training(line: str) -> Python | None:
        python = _python(line)
        if python is None:
            return None
        packages = tuple(path for prefix, path in closed if prefix == python.prefix)
        return replace(python, real=real.get(python.prefix, ""), closed_packages=packages)

    return Inside(
        accounts=tuple(account for account in accounts if account),
        groups={group[0]: int(group[2]) for group in groups if len(group) > 2 and group[2].isdecimal()},
        passwd_closed="passwd_closed" in lines,
        machine=last("machine"),
        home=last("home", "missing"),
        places=dict(_pairs(lines.get("place", ()))),
        programs=tuple(lines.get("program", ())),
        links=dict(_pairs(lines.get("link", ()))),
        boot=_python(last("boot")),
        boot_has_crlf="boot_crlf" in lines,
        toolkit=_python(last("toolkit")),
        imports=_python(last("imports")),
        environments=tuple(python for python in map(training, lines.get("environment", ())) if python),
        barred=dict(_pairs(lines.get("barred", ()))),
        unreadable=_pairs(lines.get("unreadable", ())),
        path_python=training(last("path_python")),
        set_id_files=tuple(lines.get("set_id", ())),
        driver_files=tuple(lines.get("driver", ())),
        zone=last("zone", "ok") == "ok",
        libc=_version(last("libc")),
        libc_need=max(filter(None, map(_need, lines.get("libc_need", ()))), default=None),
    )


def _python(line: str) -> Python | None:
    fields: Sequence[str] = line.split("\t", 2)
    return Python(fields[0], fields[1] == "0", fields[2]) if len(fields) == 3 else None


def _version(text: str) -> Version | None:
    """Parses `glibc 2.36` and `GLIBC_2.36` into (2, 36)."""
    match = re.fullmatch(r"(?:glibc |GLIBC_)(\d+)\.(\d+)(?:\.\d+)*", text.strip())
    return (int(match.group(1)), int(match.group(2))) if match else None


def _need(line: str) -> tuple[Version, str] | None:
    name, _, file = line.partition("\t")
    version = _COMPACT_RELOCATIONS if name == "GLIBC_ABI_DT_RELR" else _version(name)
    return (version, file) if version else None


def _pairs(lines: Sequence[str]) -> Pairs:
    parts = (line.partition("\t") for line in lines)
    return tuple((first, second) for first, tab, second in parts if tab)


def _account(line: str) -> Account | None:
    fields = line.split(":")
    if len(fields) < 6 or not (fields[2].isdecimal() and fields[3].isdecimal()):
        return None
    return Account(fields[0], int(fields[2]), int(fields[3]), fields[5])


# Messages of the dynamic loader and of Python about a library that does not fit.
_LOADER = re.compile(
    r"shared librar|symbol lookup|undefined symbol|GLIBC|version `|ELF|relocation|lib\w+\.so"
)


def error(rule: str, evidence: str, remedy: str) -> Finding:
    """Makes a finding with which a job fails or is rejected."""
    return Finding(rule, ERROR, evidence, remedy)


def warning(rule: str, evidence: str, remedy: str) -> Finding:
    """Makes a finding with which a job may run."""
    return Finding(rule, WARNING, evidence, remedy)


def remedy_for(facts: ImageFacts, answer: str, otherwise: str) -> str:
    """Returns the remedy for a program that failed with this answer.

    A library of `LD_LIBRARY_PATH` or `LD_PRELOAD` may have prevented its start; else `otherwise`."""
    names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if facts.environ.get(name)]
    if names and _LOADER.search(answer):
        given = ", ".join(f"{name}={facts.environ[name]}" for name in names)
        return f"remove {given} from ENV: its libraries replace those of the image's own programs"
    return otherwise


def some(items: Sequence[str]) -> str:
    """Shortens a list to its first three items and the number of the others."""
    return list_first(items, 3)
