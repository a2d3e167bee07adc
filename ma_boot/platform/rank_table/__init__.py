"""Rank tables as a library: read any template, validate, order the ranks, write template one. Pure.

    from ma_boot.platform.rank_table import completed_document, convert, errors, parse, validate

    table = parse(completed_document(text))     # template two, 1.0, 1.2; MindCluster's hccl.json; 2.0
    problems = errors(validate(table, product="910a"))
    text = convert(table).dumps()               # template one, the same bytes on every node

Functions take text and JSON documents and return frozen values.
The template is detected from the shape of the document. Template two is what ModelArts provides (groups of
pods, no ranks; older documents call it "v0.1"), template one is what HCCL and MindSpore read (servers with
ranks; "v1.0").
"""

from ma_boot.platform.rank_table.fake_table import WRITERS as WRITERS, fake as fake
from ma_boot.platform.rank_table.identity import Identity as Identity, own_pod as own_pod
from ma_boot.platform.rank_table.operations import (
    SuperPod as SuperPod,
    convert as convert,
    machine_table as machine_table,
    merged as merged,
    moved as moved,
    rows as rows,
)
from ma_boot.platform.rank_table.read import (
    NotYet as NotYet,
    completed as completed,
    completed_document as completed_document,
    is_packed as is_packed,
    parse as parse,
    whole_document as whole_document,
)
from ma_boot.platform.rank_table.rules import PRODUCTS as PRODUCTS, validate as validate
from ma_boot.platform.rank_table.table import (
    Device as Device,
    Pod as Pod,
    RankTable as RankTable,
    TableFinding as TableFinding,
    Unreadable as Unreadable,
    errors as errors,
)
