"""What Volcano's controllers write beside the table of a job, compared with it. Pure.

`ranktable_tor.json` has the names of pods and the ports of switches. It is the only one of its files with
the names of pods, so it tells a pod on which server it is; it is always packed, and its status stays
`initializing`. volcano-global's table of all clusters
has other ranks than the table of one cluster, and both are in a pod.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.rank_table.operations import SWITCH, rows
from ma_boot.rank_table.read import NotYet, whole_document
from ma_boot.rank_table.table import TOR_NAME, RankTable, TableFinding

GLOBAL_NAME = "global-ranktable/jobstart_hccl.json"
_EARLIER = "one of the two files is of an earlier attempt"


class FilesBeside(NamedTuple):
    """The files beside a table; None is what is not there, or cannot be read."""

    tor: Optional[RankTable] = None
    of_all_clusters: Optional[RankTable] = None

    def differences(self, table: RankTable) -> List[TableFinding]:
        """Warnings about all that a file says in another way than the table; HCCL reads the table alone."""
        found: List[TableFinding] = []
        if self.tor is not None:
            found += _differences(table, self.tor, TOR_NAME, whole=True)
        if self.of_all_clusters is not None:
            found += _differences(table, self.of_all_clusters, GLOBAL_NAME, whole=False)
        return found

    def added(self, found: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """The rows of the table with pods, switches, and ranks over all clusters, as far as they are told."""
        switches = {_place(row): row for row in rows(self.tor)} if self.tor else {}
        everywhere = rows(self.of_all_clusters) if self.of_all_clusters else ()
        ranks = {_place(row): row["rank"] for row in everywhere}
        told = []
        for row in found:
            switch = switches.get(_place(row), {})
            more = {key: switch[key] for key in ("pod", *SWITCH) if key in switch}
            if self.of_all_clusters:
                more["global_rank"] = ranks.get(_place(row))
            told.append({**row, **more})
        return told


def _place(row: Dict[str, Any]) -> Tuple[Any, Any]:
    return row["server_id"], row["device_id"]


def _differences(table: RankTable, other: RankTable, name: str, whole: bool) -> Iterator[TableFinding]:
    """`whole` says that the other file is to have the servers of the table, and no more."""
    here, there = _addresses(table), _addresses(other)
    servers, others = set(table.servers()), set(other.servers())
    for server in sorted(servers - others):
        expected = f"every server of the table: {_EARLIER}"
        yield TableFinding(f"{name}: server_list", f"no server {server}", expected, fatal=False)
    for server in sorted(others - servers) if whole else ():
        expected = f"a server of the table: {_EARLIER}"
        yield TableFinding(f"{name}: server_list", f"server {server}", expected, fatal=False)
    for (server, device), address in here.items():
        if server in others and there.get((server, device), "no device") != address:
            found = there.get((server, device), "no such device") or "no address"
            at = f"{name}: server {server}, device {device}.device_ip"
            expected = f"{address or 'no address'}, as in the table: {_EARLIER}"
            yield TableFinding(at, found, expected, fatal=False)


def _addresses(table: RankTable) -> Dict[Tuple[str, str], Optional[str]]:
    return {
        (server, device.device_id): device.device_ip
        for server, devices in table.servers().items()
        for device in devices
    }


def is_tor(document: Mapping[str, Any]) -> bool:
    """Whether it is a file of switches: of all documents with servers, it alone names pods."""
    listed = document.get("server_list")
    return isinstance(listed, list) and any(isinstance(one, dict) and "pod_name" in one for one in listed)


def server_of(pod: str, content: bytes) -> Optional[str]:
    """The `server_id` of the pod; None if it is not in the file, or the file is not whole."""
    document = whole_document(content)
    if isinstance(document, NotYet):
        return None
    try:
        servers = document["server_list"] or ()
        found = {str(server["server_id"]) for server in servers if server["pod_name"] == pod}
    except (KeyError, TypeError):
        return None
    return found.pop() if len(found) == 1 else None
