"""Rank tables as a library: read any template, validate, order the ranks, write template one. Pure.

    from ma_boot.rank_table import completed_document, convert, errors, parse, validate

    table = parse(completed_document(text))     # template two, 1.0, 1.2; MindCluster's hccl.json; 2.0
    problems = errors(validate(table, product="910a"))
    text = convert(table).dumps()               # template one, the same bytes on every node

It takes text and JSON documents and returns frozen values; it needs nothing from outside this project.
The template is detected from the shape of the document. Template two is what ModelArts provides (groups of
pods, no ranks; older documents call it "v0.1"), template one is what HCCL and MindSpore read (servers with
ranks; "v1.0").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ma_boot.rank_table.identity import Identity, own_pod
from ma_boot.rank_table.packing import is_packed, packed
from ma_boot.rank_table.rank_order import convert
from ma_boot.rank_table.read import NotYet, completed, completed_document, parse, parse_tor, whole_document
from ma_boot.rank_table.rules import PRODUCTS, validate
from ma_boot.rank_table.table import (
    TOR,
    TOR_NAME,
    Device,
    Pod,
    RankTable,
    TableFinding,
    Unreadable,
    errors,
)
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from ma_boot.rank_table.beside import GLOBAL_NAME, FilesBeside, is_tor, server_of
    from ma_boot.rank_table.fake_table import fake
    from ma_boot.rank_table.operations import SuperPod, machine_table, merged, moved, rows
    from ma_boot.rank_table.writers import WRITERS
else:  # a job only reads a table, checks and converts it
    __getattr__ = when_used(
        __name__,
        {
            "beside": ("GLOBAL_NAME", "FilesBeside", "is_tor", "server_of"),
            "fake_table": ("fake",),
            "operations": ("SuperPod", "machine_table", "merged", "moved", "rows"),
            "writers": ("WRITERS",),
        },
    )

__all__ = [
    "GLOBAL_NAME",
    "PRODUCTS",
    "TOR",
    "TOR_NAME",
    "WRITERS",
    "Device",
    "FilesBeside",
    "Identity",
    "NotYet",
    "Pod",
    "RankTable",
    "SuperPod",
    "TableFinding",
    "Unreadable",
    "completed",
    "completed_document",
    "convert",
    "errors",
    "fake",
    "is_packed",
    "is_tor",
    "machine_table",
    "merged",
    "moved",
    "own_pod",
    "packed",
    "parse",
    "parse_tor",
    "rows",
    "server_of",
    "validate",
    "whole_document",
]
