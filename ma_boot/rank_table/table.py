"""What a rank table is, once it has been read; and what can be wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

TEMPLATES = ("two", "1.0", "1.2", "2.0")


@dataclass(frozen=True)
class Finding:
    """Something in a table: where (a JSON path), what was found, what was expected.

    `hccl` is the error that HCCL would have reported for it after the start, empty where there is none;
    `fatal` is False for what it only deserves a warning.
    """

    path: str
    found: str
    expected: str
    hccl: str = ""
    fatal: bool = True

    def __str__(self) -> str:
        later = f" (HCCL would say {self.hccl})" if self.hccl else ""
        return f"{self.path}: found {self.found}, expected {self.expected}{later}"


def errors(findings: Iterable[Finding]) -> List[Finding]:
    """Those findings that make a table unusable."""
    return [finding for finding in findings if finding.fatal]


class Unreadable(ValueError):
    """The document is no rank table of any template; `findings` has every reason."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


@dataclass(frozen=True)
class Device:
    """One card: its physical id in its server, the address of its network port, and its rank in the job.

    `rank` is None as long as none is given (template two). `more` has the fields that are not interpreted.
    """

    device_id: str
    device_ip: Optional[str]
    rank: Optional[int] = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pod:
    """One container of the job and its devices; templates with ranks know no pod names.

    `more` has the fields of the server or instance that are not interpreted.
    """

    name: Optional[str]
    server_id: str
    devices: Tuple[Device, ...]
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RankTable:
    """A completed table; `template` is one of `TEMPLATES`.

    `document` is the JSON it was read from, numbers replaced by the strings that they should have been
    (HCCL refuses numbers), and `findings` what was noticed on the way. A 2.0 table is passed through: it
    has no `pods` here, and its `world_size` is what it declares.
    """

    template: str
    pods: Tuple[Pod, ...]
    document: Mapping[str, Any]
    findings: Tuple[Finding, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks: counted, since the counts that tables declare have been wrong before."""
        if self.template == "2.0":
            return int(self.document["rank_count"])
        return sum(len(pod.devices) for pod in self.pods)

    def dumps(self) -> str:
        """The document as a file holds it; equal tables give equal bytes."""
        return json.dumps(self.document, indent=2, ensure_ascii=False) + "\n"

    def servers(self) -> Dict[str, List[Device]]:
        """The devices by server, in the order of the table; two pods of one server are one server."""
        devices: Dict[str, List[Device]] = {}
        for pod in self.pods:
            devices.setdefault(pod.server_id, []).extend(pod.devices)
        return devices
