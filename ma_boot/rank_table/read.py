"""From text to a table: every template, detected by its shape."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ma_boot.rank_table.table import Device, Finding, Pod, RankTable, Unreadable, errors

_DEVICE_FIELDS = {"device_id", "device_ip", "rank_id"}
_POD_FIELDS = {"pod_name", "server_id", "devices", "device"}
MISSING = "EI0017"  # HCCL: "Config ... is missing in the ranktable file", "property value ... is not string!"
INVALID = "EI0014"  # HCCL: "Value [...] for ranktable variable [...] is invalid"


class NotYet(NamedTuple):
    """Why a table cannot be used yet, in words for the log."""

    reason: str


def completed_document(text: str) -> Union[Dict[str, Any], NotYet]:
    """The document once it says `completed`; else why it is not ready.

    The table is written by somebody else while we read, not atomically: empty, half a document, or no
    more than a status are states that every job passes through.
    """
    if not text.strip():
        return NotYet("the file is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return NotYet(f"the file is not whole JSON yet ({len(text)} characters)")
    if not isinstance(document, dict):
        return NotYet(f"the file holds a JSON {type(document).__name__}, expected an object")
    status = document.get("status")
    if status is None:
        return NotYet("the table has no status yet")
    if status != "completed":
        return NotYet(f'status is "{status}"')
    return document


def parse(document: Mapping[str, Any]) -> RankTable:
    """Reads a document of any template; raises `Unreadable` with everything that has no sensible reading.

    What can be read but is wrong (counts, duplicates, ranks) is for `rules.validate`.
    """
    reading = _Reading()
    if "rank_list" in document:  # its numbers are numbers
        reading.count(document, "rank_count")
        return reading.table("2.0", (), document)
    strings: Mapping[str, Any] = reading.strings(document, "")
    if "server_list" in document:
        template = "1.2" if str(document.get("version")) == "1.2" else "1.0"
        return reading.table(template, reading.servers(strings), strings)
    if "group_list" not in document:
        expected = "group_list (template two), server_list (1.0, 1.2) or rank_list (2.0)"
        reading.report("$", "none of them", expected, MISSING)
        return reading.table("", (), strings)
    return reading.table("two", reading.groups(strings), strings)


class _Reading:
    """Reads the parts of one document, and keeps what it finds wrong with them."""

    def __init__(self) -> None:
        self.findings: List[Finding] = []

    def report(self, path: str, found: str, expected: str, hccl: str = "", fatal: bool = True) -> None:
        self.findings.append(Finding(path, found, expected, hccl, fatal))

    def table(self, template: str, pods: Sequence[Pod], document: Mapping[str, Any]) -> RankTable:
        """The table, unless something fatal was found on the way to it."""
        if errors(self.findings):
            raise Unreadable(errors(self.findings))
        return RankTable(template, tuple(pods), document, tuple(self.findings))

    def strings(self, value: Any, path: str) -> Any:
        """The value with numbers as strings, each with a warning; HCCL refuses numbers."""
        if isinstance(value, dict):
            dot = f"{path}." if path else ""
            return {key: self.strings(item, f"{dot}{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [self.strings(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            self.report(path, f"the number {value}", f'the string "{value}"', MISSING, fatal=False)
            return str(value)
        return value

    def groups(self, document: Mapping[str, Any]) -> List[Pod]:
        pods = []
        for path, group in self.objects(document, "group_list", ""):
            for at, instance in self.objects(group, "instance_list", path):
                name = self.text(instance, "pod_name", at)
                pods.append(self.pod(instance, at, name, "devices", ranked=False))
        return pods

    def servers(self, document: Mapping[str, Any]) -> List[Pod]:
        """The servers in the order of their ranks, which is what `VC_TASK_INDEX` counts."""
        found = self.objects(document, "server_list", "")
        pods = [self.pod(server, at, None, "device", ranked=True) for at, server in found]
        return sorted(pods, key=lambda pod: min((device.rank or 0 for device in pod.devices), default=-1))

    def pod(self, holder: Mapping[str, Any], at: str, name: Optional[str], key: str, ranked: bool) -> Pod:
        devices = [self.device(device, path, ranked) for path, device in self.objects(holder, key, at)]
        if ranked:
            devices.sort(key=lambda device: device.rank or 0)
        more = {field: value for field, value in holder.items() if field not in _POD_FIELDS}
        return Pod(name, self.text(holder, "server_id", at), tuple(devices), more)

    def device(self, device: Mapping[str, Any], at: str, ranked: bool) -> Device:
        device_id = self.number(device, "device_id", at)
        rank = int(self.number(device, "rank_id", at)) if ranked else None
        ip = self.text(device, "device_ip", at) if device.get("device_ip") else None
        more = {field: value for field, value in device.items() if field not in _DEVICE_FIELDS}
        return Device(device_id, ip, rank, more)

    def objects(self, holder: Mapping[str, Any], key: str, at: str) -> List[Tuple[str, Mapping[str, Any]]]:
        """The objects in the list under a key, each with its path; what is no object is reported."""
        path = f"{at}.{key}" if at else key
        value = holder.get(key)
        if not isinstance(value, list):
            self.report(path, _kind(value), "a list", MISSING)
            return []
        for i, item in enumerate(value):
            if not isinstance(item, dict):
                self.report(f"{path}[{i}]", _kind(item), "an object", MISSING)
        return [(f"{path}[{i}]", item) for i, item in enumerate(value) if isinstance(item, dict)]

    def text(self, holder: Mapping[str, Any], key: str, at: str) -> str:
        value = holder.get(key)
        if isinstance(value, str) and value:
            return value
        self.report(f"{at}.{key}", _kind(value), "a string", MISSING)
        return ""

    def number(self, holder: Mapping[str, Any], key: str, at: str) -> str:
        value = self.text(holder, key, at)
        if value and not (value.isascii() and value.isdecimal() and len(value) < 10):
            self.report(f"{at}.{key}", repr(value), "a number as a string", INVALID)
        return value if value.isascii() and value.isdecimal() and len(value) < 10 else "0"

    def count(self, document: Mapping[str, Any], key: str) -> None:
        value = document.get(key)
        if not (isinstance(value, int) and value > 0) and not (isinstance(value, str) and value.isdecimal()):
            self.report(key, _kind(value), "the number of ranks", MISSING)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
