"""Parses text into a table; the template is detected from the shape of the document."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.platform.rank_table.rules import validate
from ma_boot.platform.rank_table.table import (
    INVALID,
    MISSING,
    Device,
    Pod,
    RankTable,
    TableFinding,
    Unreadable,
    errors,
    is_number,
    template_of,
)

_DEVICE_FIELDS = {"device_id", "device_ip", "rank_id"}
_POD_FIELDS = {"pod_name", "server_id", "devices", "device"}
# Counters of writes in some tables, as numbers; HCCL does not read them.
_COUNTERS = {"data_version", "data_Version"}
# MindCluster's ClusterD writes "complete".
_COMPLETED = ("completed", "complete")
# The first bytes of gzip (1f 8b 08) in base64.
PREFIX = b"H4sI"
# Bytes of an unpacked table: a hundred times the size for 100,000 cards. A packed file of some KB could fill
# the memory otherwise.
LARGEST = 256 * 1024 * 1024


class NotYet(NamedTuple):
    """The reason why a table cannot be used yet, as a phrase for the log."""

    reason: str


def completed_document(content: str | bytes) -> dict[str, Any] | NotYet:
    """Returns the document if its status is `completed`, else the reason why it is not ready. Unpacks it.

    The platform does not write the file atomically: every job passes through an empty file, half a document,
    and a document with nothing but a status.
    """
    document = whole_document(content)
    return document if isinstance(document, NotYet) else completed(document)


def completed(document: dict[str, Any]) -> dict[str, Any] | NotYet:
    """Returns the document if its status is `completed`, else the reason why it is not ready."""
    status = document.get("status")
    if status is None:
        return NotYet("the table has no status")
    if status not in _COMPLETED:
        return NotYet(f'status is "{status}"')
    if document.get("server_list", "") is None:
        return NotYet(f'status is "{status}", but server_list is null')
    return document


def whole_document(content: str | bytes) -> dict[str, Any] | NotYet:
    """Returns the unpacked document with any status, or the reason why the content is not a document."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    if is_packed(data):
        try:
            data = unpacked(data)
        except ValueError as error:
            return NotYet(f"the file is packed, and not complete ({len(data)} bytes; {error})")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return NotYet(
            f"the file is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        )
    if not text.strip():
        return NotYet("the file is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return NotYet(f"the file is not complete JSON ({len(text)} characters; {error})")
    if not isinstance(document, dict):
        return NotYet(f"the file contains a JSON {type(document).__name__}, expected an object")
    return document


def is_packed(content: bytes) -> bool:
    """Returns whether Volcano's plugin has packed the file (`--rank-table-compress`): gzip in base64."""
    return content.lstrip()[: len(PREFIX)] == PREFIX


def unpacked(content: bytes) -> bytes:
    """Unpacks a table to JSON; raises `ValueError` if it is incomplete or larger than `LARGEST`."""
    data = base64.b64decode(b"".join(content.split()), validate=True)
    # 16 more bits select the format of gzip.
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = reader.decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail:
        raise ValueError(f"more than {LARGEST} bytes when unpacked")
    if not reader.eof:
        raise ValueError("the end is missing")
    return text


def parse(document: Mapping[str, Any], product: str | None = None) -> RankTable:
    """Reads a document of any template; wrong values (counts, duplicates, ranks) are left to `validate`.

    Raises `Unreadable` if a part is missing or has the wrong type. Its findings include wrong values of the
    readable parts, by the rules for `product`.
    """
    reading = _Reading(product)
    if "rank_list" in document:
        # Numbers of version 2.0 stay numbers.
        reading.count(document, "rank_count")
        return reading.table("2.0", (), document)
    strings: Mapping[str, Any] = reading.strings(document, "")
    if "server_list" in document:
        return reading.table(template_of(strings), reading.servers(strings), strings)
    if "group_list" not in document:
        expected = "group_list (template two), server_list (1.0, 1.2) or rank_list (2.0)"
        reading.report("$", "no known list", expected, MISSING)
        return reading.table("", (), strings)
    return reading.table("two", reading.groups(strings), strings)


class _Reading:
    """Reads the parts of one document and collects findings."""

    def __init__(self, product: str | None) -> None:
        self.findings: list[TableFinding] = []
        self._product = product

    def report(self, path: str, found: str, expected: str, hccl: str = "", fatal: bool = True) -> None:
        self.findings.append(TableFinding(path, found, expected, hccl, fatal))

    def table(self, template: str, pods: Sequence[Pod], document: Mapping[str, Any]) -> RankTable:
        """Returns the table; raises `Unreadable` if a finding is fatal."""
        table = RankTable(template, tuple(pods), document, tuple(self.findings))
        if errors(self.findings):
            raise Unreadable(errors(validate(table, self._product)))
        return table

    def strings(self, value: Any, path: str) -> Any:
        """Converts numbers to strings, with a warning for each: HCCL rejects numbers."""
        if isinstance(value, dict):
            dot = f"{path}." if path else ""
            return {
                key: item if isinstance(item, str) or key in _COUNTERS else self.strings(item, f"{dot}{key}")
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.strings(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            self.report(path, f"the number {value}", f'the string "{value}"', MISSING, fatal=False)
            return str(value)
        return value

    def groups(self, document: Mapping[str, Any]) -> list[Pod]:
        pods = []
        for path, group in self.objects(document, "group_list", ""):
            for at, instance in self.objects(group, "instance_list", path):
                name = self.text(instance, "pod_name", at)
                pods.append(self.pod(instance, at, name, "devices", ranked=False))
        return pods

    def servers(self, document: Mapping[str, Any]) -> list[Pod]:
        """Reads the servers in the order of the file, which is the order of the pods.

        The order of ranks differs after pods change places: Volcano's controller leaves the ranks with
        servers.
        """
        listed = self.objects(document, "server_list", "")
        return [self.pod(server, at, None, "device", ranked=True) for at, server in listed]

    def pod(self, holder: Mapping[str, Any], at: str, name: str | None, key: str, ranked: bool) -> Pod:
        """Reads a server or instance with its readable devices."""
        listed = (self.device(device, path, ranked) for path, device in self.objects(holder, key, at))
        devices = [device for device in listed if device is not None]
        if ranked:
            devices.sort(key=lambda device: device.rank or 0)
        more = {field: value for field, value in holder.items() if field not in _POD_FIELDS}
        return Pod(name, self.text(holder, "server_id", at), tuple(devices), more)

    def device(self, device: Mapping[str, Any], at: str, ranked: bool) -> Device | None:
        device_id = self.number(device, "device_id", at)
        rank = self.number(device, "rank_id", at) if ranked else None
        ip = self.text(device, "device_ip", at) if device.get("device_ip") else None
        more = {field: value for field, value in device.items() if field not in _DEVICE_FIELDS}
        if device_id is None or (ranked and rank is None):
            return None
        return Device(device_id, ip, None if rank is None else int(rank), more)

    def objects(self, holder: Mapping[str, Any], key: str, at: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Yields the objects in the list under a key, each with its path; reports anything else."""
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
        shown = "an empty string" if value == "" else _kind(value)
        self.report(f"{at}.{key}", shown, "a non-empty string", MISSING)
        return ""

    def number(self, holder: Mapping[str, Any], key: str, at: str) -> str | None:
        value = self.text(holder, key, at)
        if value.isascii() and value.isdecimal() and len(value) < 10:
            return value
        if value:
            self.report(f"{at}.{key}", f"{value!r:.40}", "a number as a string", INVALID)
        return None

    def count(self, document: Mapping[str, Any], key: str) -> None:
        value = document.get(key)
        if not (isinstance(value, int) and value > 0) and not (isinstance(value, str) and is_number(value)):
            self.report(key, _kind(value), "the number of ranks", MISSING)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
