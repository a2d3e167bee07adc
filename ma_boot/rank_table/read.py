"""Parses text into a table; the template is detected from the shape of the document."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ma_boot.rank_table.table import Device, Pod, RankTable, TableFinding, Unreadable, errors

_DEVICE_FIELDS = {"device_id", "device_ip", "rank_id"}
_POD_FIELDS = {"pod_name", "server_id", "devices", "device"}
# Codes and texts of HCCL's parser of rank tables.
MISSING = "EI0017"  # "Config ... is missing in the ranktable file", "property value ... is not string!"
INVALID = "EI0014"  # "Value [...] for ranktable variable [...] is invalid"


class NotYet(NamedTuple):
    """Why a table cannot be used yet, as a phrase for the log."""

    reason: str


def completed_document(text: str) -> Union[Dict[str, Any], NotYet]:
    """The document if its status is `completed`, else why it is not ready.

    The platform does not write the file atomically: an empty file, half a document and a document with only
    a status are states that every job goes through.
    """
    if not text.strip():
        return NotYet("the file is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return NotYet(f"the file is not complete JSON yet ({len(text)} characters)")
    if not isinstance(document, dict):
        return NotYet(f"the file contains a JSON {type(document).__name__}, expected an object")
    status = document.get("status")
    if status is None:
        return NotYet("the table has no status yet")
    if status != "completed":
        return NotYet(f'status is "{status}"')
    return document


def parse(document: Mapping[str, Any]) -> RankTable:
    """Reads a document of any template.

    Raises `Unreadable` with every part that is missing or has the wrong type. Wrong values (counts,
    duplicates, ranks) are left to `validate`.
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
        reading.report("$", "no known list", expected, MISSING)
        return reading.table("", (), strings)
    return reading.table("two", reading.groups(strings), strings)


class _Reading:
    """Reads the parts of one document and collects what is wrong with them."""

    def __init__(self) -> None:
        self.findings: List[TableFinding] = []

    def report(self, path: str, found: str, expected: str, hccl: str = "", fatal: bool = True) -> None:
        self.findings.append(TableFinding(path, found, expected, hccl, fatal))

    def table(self, template: str, pods: Sequence[Pod], document: Mapping[str, Any]) -> RankTable:
        """The table; raises `Unreadable` if something fatal was found."""
        if errors(self.findings):
            raise Unreadable(errors(self.findings))
        return RankTable(template, tuple(pods), document, tuple(self.findings))

    def strings(self, value: Any, path: str) -> Any:
        """The value with numbers as strings, and a warning for each; HCCL rejects numbers."""
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
        """The servers in rank order, which is the order that `VC_TASK_INDEX` counts in."""
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
        """The objects in the list under a key, each with its path; anything else is reported."""
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
