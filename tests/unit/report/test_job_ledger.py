"""The ledger of a job: documents that anything may have written, keys, and bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.redact import MASK, remember_secrets
from ma_boot.report.job_ledger import (
    FAILED,
    MOST_BYTES,
    MOST_ENTRIES,
    REFUSED,
    EntryKey,
    JobLedger,
    LedgerEntry,
    RunDigest,
    entry_document,
    job_directory,
    read_entry,
    surplus,
)
from tests.unit.report.ledgers import FIELDS, JSON

KEY = EntryKey(2, "9c41e0d2", 1, FAILED)
DIGEST = RunDigest(*("0123456789abcdef",) * len(RunDigest._fields))
ENTRY = LedgerEntry(
    KEY,
    "job",
    1790000000.5,
    4,
    digest=DIGEST,
    step=410,
    whole="400",
    node=1,
    rank=9,
    code=1,
    words="ValueError: bad label 91",
    place="train.py:12",
    kind="deterministic",
    rule="repeated",
    server="192.168.0.99",
    paid=1200.5,
    useful=800.0,
)


def entry_of(**values: Any) -> LedgerEntry:
    return ENTRY._replace(**values)


def test_entry_is_read_as_it_was_written() -> None:
    document = json.loads(json.dumps(entry_document(ENTRY)))
    assert read_entry(KEY, document) == ENTRY


@given(FIELDS | JSON)
def test_any_document_is_an_entry_within_bounds_or_none(document: object) -> None:
    entry = read_entry(KEY, document)
    if entry is None:
        return
    assert entry.key == KEY
    texts = [value for value in (*entry, *entry.digest) if isinstance(value, str)]
    assert all(text.isprintable() and len(text) <= 300 for text in texts)
    "".join(texts).encode()
    assert all(0 <= value <= 10**15 for value in entry if isinstance(value, (int, float)))
    assert read_entry(KEY, json.loads(json.dumps(entry_document(entry)))) is not None


@given(st.text(max_size=40) | st.from_regex(r"\d{6}-[0-9a-f]{8}/\d{5}-[a-z]{5,9}\.json", fullmatch=True))
def test_any_key_is_one_of_an_entry_or_none(text: str) -> None:
    key = EntryKey.parse(text)
    assert key is None or str(key) == text


@given(
    st.builds(
        entry_of,
        words=st.text(max_size=5000),
        place=st.text(max_size=500),
        job=st.text(min_size=1, max_size=500),
        whole=st.text(max_size=500),
        server=st.text(max_size=500),
    )
)
def test_document_of_any_entry_is_bounded(entry: LedgerEntry) -> None:
    text = json.dumps(entry_document(entry))
    assert len(text) <= MOST_BYTES
    assert MOST_BYTES * MOST_ENTRIES <= 256 << 10


@pytest.mark.invariant("no secret gets into the ledger of a job")
def test_secrets_are_masked() -> None:
    remember_secrets({"OBS_SK": "verysecretvalue"}, afresh=True)
    words = "PermissionError: verysecretvalue, token=abcdefgh12345678"
    document = entry_document(ENTRY._replace(words=words, place="verysecretvalue:3"))
    assert "verysecretvalue" not in json.dumps(document)
    assert "abcdefgh12345678" not in json.dumps(document)
    assert MASK in document["words"]
    remember_secrets({}, afresh=True)


def test_listing_of_keys_has_the_newest_start_first() -> None:
    keys = [str(EntryKey(start, "9c41e0d2", 1, FAILED)) for start in (1, 2, 10, 200)]
    assert sorted(keys) == keys[::-1]


def test_oldest_entries_are_surplus_before_another_start() -> None:
    keys = [EntryKey(start, "9c41e0d2", 1, FAILED) for start in range(1, MOST_ENTRIES + 1)]
    assert surplus(keys) == [keys[1], keys[0]]
    assert surplus(keys[:50]) == []


def test_ends_are_the_last_entries_of_starts_the_newest_first() -> None:
    def entry(start: int, attempt: int, outcome: str) -> LedgerEntry:
        return entry_of(key=EntryKey(start, "9c41e0d2", attempt, outcome))

    refused = entry(3, 0, REFUSED)
    ledger = JobLedger.of(
        [refused, entry(2, 1, FAILED), None, entry(1, 2, FAILED), entry(2, 0, "begun"), entry(1, 1, FAILED)]
    )
    assert [end.key[:4:2] for end in ledger.ends()] == [(2, 1), (1, 2)]
    assert ledger.last_start == 3


def test_any_name_of_a_job_is_a_directory() -> None:
    names = ["", "a/b", "训练", "\udcff", "x" * 10_000]
    assert all(job_directory(name).isalnum() and len(job_directory(name)) == 16 for name in names)
