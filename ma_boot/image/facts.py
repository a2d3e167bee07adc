"""What is known about an image: its metadata and the results of a probe inside, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

GB = 10**9
LABEL = "ma_boot"  # of every container and network that ma_boot creates
ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


def docker_platform(architecture: str) -> str:
    """The name for `docker build --platform` of an architecture as in `uname -m`."""
    return {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}.get(architecture, f"linux/{architecture}")


@dataclass(frozen=True)
class Python:
    """An interpreter inside the image; `answer` is its version, or the error."""

    prefix: str
    runs: bool
    answer: str


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

    `programs` are the shells found on PATH or in /bin; `toolkit` is None if there is no ma_boot;
    `set_id_files` are set-uid and set-gid files; `zone` is False if TZ names a time zone that is not
    installed.
    """

    accounts: Tuple[Account, ...] = ()
    gid: Optional[int] = None
    home: str = "missing"
    programs: Tuple[str, ...] = ()
    toolkit: Optional[Python] = None
    environments: Tuple[Python, ...] = ()
    path_python: Optional[Python] = None
    set_id_files: Tuple[str, ...] = ()
    driver_files: Tuple[str, ...] = ()
    zone: bool = True


@dataclass(frozen=True)
class Started:
    """The trial of a boot command: whether its programs were found, its exit code (None if it was still
    running at the timeout), and the end of its output."""

    command: str
    found: bool
    exit_code: Optional[int]
    output: str


@dataclass(frozen=True)
class ImageFacts:
    """An image; `inside` is None if the probe could not run, for the reason in `refusal`.

    `size` is in bytes; `architecture` as in `uname -m`.
    """

    name: str
    user: str
    environ: Mapping[str, str]
    entrypoint: Tuple[str, ...]
    workdir: str
    volumes: Tuple[str, ...]
    architecture: str
    size: int
    inside: Optional[Inside] = None
    refusal: str = ""
    started: Optional[Started] = None


def from_metadata(name: str, attributes: Mapping[str, Any]) -> ImageFacts:
    """The facts from the engine's description of an image."""
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
    )


def parsed_probe(text: str) -> Inside:
    """Parses the output of `probe.sh`, lines of `name<TAB>value`; unknown lines are ignored."""
    lines: Dict[str, List[str]] = {}
    for line in text.splitlines():
        name, tab, value = line.partition("\t")
        if tab:
            lines.setdefault(name, []).append(value)

    def last(name: str, default: str = "") -> str:
        return lines.get(name, [default])[-1]

    accounts = (_account(line) for line in lines.get("passwd", ()))
    return Inside(
        accounts=tuple(account for account in accounts if account),
        gid=int(last("gid")) if last("gid").isdecimal() else None,
        home=last("home", "missing"),
        programs=tuple(lines.get("program", ())),
        toolkit=_python(last("toolkit")),
        environments=tuple(found for found in map(_python, lines.get("environment", ())) if found),
        path_python=_python(last("path_python")),
        set_id_files=tuple(lines.get("set_id", ())),
        driver_files=tuple(lines.get("driver", ())),
        zone=last("zone", "ok") == "ok",
    )


def _python(line: str) -> Optional[Python]:
    fields: Sequence[str] = line.split("\t", 2)
    return Python(fields[0], fields[1] == "0", fields[2]) if len(fields) == 3 else None


def _account(line: str) -> Optional[Account]:
    fields = line.split(":")
    if len(fields) < 6 or not (fields[2].isdecimal() and fields[3].isdecimal()):
        return None
    return Account(fields[0], int(fields[2]), int(fields[3]), fields[5])
