"""Rank tables as a library: read every template, validate, order the ranks, write template one. Pure.

    from ma_boot.rank_table import completed_document, convert, errors, parse, validate

    table = parse(completed_document(text))     # template two, 1.0, 1.2; MindCluster's hccl.json; 2.0
    problems = errors(validate(table, product="910a"))
    text = convert(table).dumps()               # template one, the same bytes on every node

Text and JSON documents in, frozen values out; the standard library alone. Which template a document is, its
shape tells, not its path. Names: template two is what ModelArts gives (groups of pods, no ranks; its older
texts say "v0.1"), template one is what HCCL and MindSpore want (servers with ranks; "v1.0").
"""

from ma_boot.rank_table.fake_table import fake
from ma_boot.rank_table.identity import own_pod
from ma_boot.rank_table.rank_order import RANK_ORDERS, convert
from ma_boot.rank_table.read import NotYet, completed_document, parse
from ma_boot.rank_table.rules import PRODUCTS, validate
from ma_boot.rank_table.table import Device, Finding, Pod, RankTable, Unreadable, errors

__all__ = [
    "PRODUCTS",
    "RANK_ORDERS",
    "Device",
    "Finding",
    "NotYet",
    "Pod",
    "RankTable",
    "Unreadable",
    "completed_document",
    "convert",
    "errors",
    "fake",
    "own_pod",
    "parse",
    "validate",
]
