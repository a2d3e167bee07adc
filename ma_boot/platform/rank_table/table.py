"""A rank table as values: pods, devices, findings."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

# Codes and texts of HCCL's parser of rank tables.
# HCCL: "Config ... is missing in the ranktable file", "property value ... is not string!"
MISSING = "EI0017"
# HCCL: "Value [...] for ranktable variable [...] is invalid"
INVALID = "EI0014"

# HCCL's parser knows "1.0", "1.1" (heterogeneous) and "1.2" (super pods) and refuses any other text (EI0014,
# formerly EI0004). Volcano's plugin configmap1980 writes what its user passes to it ("v1", "1.3" or nothing),
# volcano-global "1.4". Their fields are those of 1.2 if there is a `super_pod_list`, else of 1.0, and more
# that HCCL does not read.
READ_BY_HCCL = ("1.0", "1.1", "1.2")
RENAMED = ("1.3", "1.4", "v1", "v2", "")

_NOTHING_MORE: Mapping[str, Any] = MappingProxyType({})
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}", re.ASCII)


class TableFinding(NamedTuple):
    """A defect of a table: its place (a JSON path), the found and the expected value.

    `hccl` is the error code that HCCL would report for it once the training runs, empty if there is none;
    `fatal` is False for a warning.
    """

    path: str
    found: str
    expected: str
    hccl: str = ""
    fatal: bool = True

    def __str__(self) -> str:
        later = f" (HCCL would report {self.hccl})" if self.hccl else ""
        return f"{self.path}: found {self.found}, expected {self.expected}{later}"


def is_number(text: str) -> bool:
    """Returns whether a text is a number of at most 18 ASCII digits: Python refuses to convert thousands."""
    return len(text) <= 18 and text.isascii() and text.isdecimal()


def address_family(address: str) -> int:
    """Returns 4 or 6; raises `ValueError` for a text that is not an IP address."""
    # Faster than `ipaddress`, which matters for 100,000 cards.
    if _IPV4.fullmatch(address):
        return 4
    return ipaddress.ip_address(address).version


def errors(findings: Iterable[TableFinding]) -> list[TableFinding]:
    """Selects the findings that make a table unusable."""
    return [finding for finding in findings if finding.fatal]


class Unreadable(ValueError):
    """A part of the document is missing or has the wrong type; `findings` lists every error in it."""

    def __init__(self, findings: Iterable[TableFinding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class Device(NamedTuple):
    """One card: its physical id within its server, the address of its network port, and its rank in the job.

    `rank` is None in template two, which has no ranks. `more` holds the fields that are not interpreted.
    """

    device_id: str
    device_ip: str | None
    rank: int | None = None
    more: Mapping[str, Any] = _NOTHING_MORE


class Pod(NamedTuple):
    """One container of the job and its devices; `name` is None in templates with ranks.

    `more` holds the fields of the server or instance that are not interpreted.
    """

    name: str | None
    server_id: str
    devices: tuple[Device, ...]
    more: Mapping[str, Any] = _NOTHING_MORE


class RankTable(NamedTuple):
    """A completed table; `template` is "two", "1.0", "1.2" or "2.0".

    `document` is the JSON it was read from, with numbers replaced by strings (HCCL rejects numbers);
    `findings` are those made while reading. A 2.0 table is passed through: it has no `pods`, and its
    `world_size` is the one it declares.
    """

    template: str
    pods: tuple[Pod, ...]
    document: Mapping[str, Any]
    findings: tuple[TableFinding, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks, counted: the counts that tables declare can be wrong."""
        if self.template == "2.0":
            return int(self.document["rank_count"])
        return sum(len(pod.devices) for pod in self.pods)

    def dumps(self) -> str:
        """The document as text for a file; equal tables give equal bytes."""
        return json.dumps(self.document, indent=2, ensure_ascii=False) + "\n"

    def servers(self) -> dict[str, list[Device]]:
        """The devices by `server_id`, in table order; pods on the same server are merged."""
        devices: dict[str, list[Device]] = {}
        for pod in self.pods:
            devices.setdefault(pod.server_id, []).extend(pod.devices)
        return devices


def template_of(document: Mapping[str, Any]) -> str:
    """ "1.2" for a table with super pods, else "1.0"."""
    return "1.2" if document.get("super_pod_list") or _version(document) == "1.2" else "1.0"


def for_hccl(table: RankTable) -> dict[str, Any]:
    """Returns the document as HCCL reads it: a known version, no empty list of super pods or `host_ip`.

    An unknown version stays: a newer HCCL may know it.
    """
    document = dict(table.document)
    if _version(document) in RENAMED:
        document["version"] = table.template
    if not document.get("super_pod_list", True):
        del document["super_pod_list"]
    if any(pod.more.get("host_ip") == "" for pod in table.pods):
        document["server_list"] = [
            {name: value for name, value in server.items() if name != "host_ip" or value}
            for server in document["server_list"]
        ]
    return {**document, "status": "completed"}


def findings_about_version(table: RankTable) -> Iterator[TableFinding]:
    """Warns about a version that HCCL does not know."""
    version = _version(table.document)
    if version in READ_BY_HCCL:
        return
    written = f'written as "{table.template}"' if version in RENAMED else "left as it is"
    shown = "nothing" if table.document.get("version") is None else repr(version)
    expected = f'"1.0", "1.1" or "1.2", which HCCL reads; it is {written}'
    yield TableFinding("version", shown, expected, fatal=False)


def _version(document: Mapping[str, Any]) -> str:
    version = document.get("version")
    return "" if version is None else str(version)
