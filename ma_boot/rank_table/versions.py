"""The versions of tables with servers: what HCCL reads, and what writers call the same.

HCCL's parser knows "1.0", "1.1" (heterogeneous) and "1.2" (super pods) and refuses any other text (EI0014,
formerly EI0004). Volcano's plugin configmap1980 writes what its user passes to it ("v1", "1.3" or nothing),
and volcano-global writes "1.4". Their fields are those of 1.2 if there is a `super_pod_list`, else of 1.0,
and more that HCCL does not look at.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

from ma_boot.rank_table.table import RankTable, TableFinding

READ_BY_HCCL = ("1.0", "1.1", "1.2")
RENAMED = ("1.3", "1.4", "v1", "v2", "")


def template_of(document: Mapping[str, Any]) -> str:
    """ "1.2" for a table with super pods, else "1.0"."""
    return "1.2" if document.get("super_pod_list") or _version(document) == "1.2" else "1.0"


def for_hccl(table: RankTable) -> Dict[str, Any]:
    """The document as HCCL reads it: with a version that it knows, and without an empty list of super pods.

    A version that nobody knows stays: the HCCL that reads it may know it.
    """
    document = dict(table.document)
    if _version(document) in RENAMED:
        document["version"] = table.template
    if not document.get("super_pod_list", True):
        del document["super_pod_list"]
    return {**document, "status": "completed"}


def findings_about_version(table: RankTable) -> Iterator[TableFinding]:
    """A warning for a version that HCCL does not know."""
    version = _version(table.document)
    if version in READ_BY_HCCL:
        return
    written = f'written as "{table.template}"' if version in RENAMED else "left as it is"
    found = "nothing" if table.document.get("version") is None else repr(version)
    expected = f'"1.0", "1.1" or "1.2", which HCCL reads; it is {written}'
    yield TableFinding("version", found, expected, fatal=False)


def _version(document: Mapping[str, Any]) -> str:
    version = document.get("version")
    return "" if version is None else str(version)
