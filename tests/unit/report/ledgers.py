"""Ledgers of jobs: entries, the events of a node that has read them, and any content."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ma_boot.report.job_ledger import BEGUN, FAILED, SUCCEEDED, EntryKey, LedgerEntry, RunDigest, entry_fields
from tests.synthetic import BEGAN, Writer
from tests.unit.report.page.seen import node_with

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.dictionaries(st.sampled_from([*LedgerEntry._fields, *RunDigest._fields, "x"]), JSON, max_size=20)


def entry(number: int, attempt: int, outcome: str, at: float, **more: Any) -> LedgerEntry:
    key = EntryKey(number, f"{number:08x}", attempt, outcome)
    return LedgerEntry(key, "job", BEGAN + at, 2, **{"paid": 0.0, **more})


def begun(number: int, at: float) -> LedgerEntry:
    return entry(number, 0, BEGUN, at, paid=20.0)


def failed(number: int, attempt: int, at: float, **more: Any) -> LedgerEntry:
    usual = {"paid": 200.0, "useful": 100.0, "start": 20.0, "inputs": 30.0, "lost": 40.0}
    return entry(number, attempt, FAILED, at, **{**usual, "words": "OSError: lost", **more})


SURVIVED = [
    begun(1, 10),
    failed(1, 1, 110),
    failed(1, 2, 210, whole="400"),
    begun(2, 300),
    failed(2, 1, 400, code=124, whole="500"),
    failed(2, 2, 500),
    begun(3, 600),
    entry(3, 1, SUCCEEDED, 700, paid=200.0, useful=180.0, whole="900"),
]


def node(*entries: LedgerEntry, code: int = 0) -> Writer:
    """Node 0 of the last start, whose events have the ledger in two parts."""
    writer = node_with(end=2)
    writer.at(1, "ledger", entries=[entry_fields(each) for each in entries[:-1]])
    writer.at(3, "ledger", entries=[entry_fields(each) for each in entries[-1:]])
    who = {"label": "rank 0", "rank": 0}
    writer.at(2, "start", **who, log_file="/log/0")
    writer.at(3, "exit", **who, code=code, stopped=False)
    writer.at(4, "end", exit_code=code, by="training" if code else None, label="rank 0" if code else None)
    return writer
