"""Which start of a job ends at once: only one that is known to repeat a failure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.peers.start_rule import STARTS, broken_server, repeated_start
from ma_boot.report.job_ledger import (
    BEGUN,
    FAILED,
    REFUSED,
    STOPPED,
    SUCCEEDED,
    EntryKey,
    JobLedger,
    LedgerEntry,
    RunDigest,
)

NOW = RunDigest("a", "b", "c", "d", "e")
FAILURE: dict[str, Any] = {
    "words": "ValueError: bad label 91",
    "place": "train.py:12",
    "kind": "deterministic",
    "code": 1,
    "whole": "400",
    "step": 410,
}


def ledger(*changes: dict[str, Any], outcome: str = FAILED) -> JobLedger:
    """A ledger of starts that have failed in the same way, but for these changes."""
    entries = []
    for number, change in enumerate(changes, 1):
        values = {"digest": NOW, **FAILURE, **change}
        key = EntryKey(number, "9c41e0d2", 1, values.pop("outcome", outcome))
        entries += [
            LedgerEntry(key._replace(attempt=0, outcome=BEGUN), "job", 1.0, 1, digest=NOW),
            LedgerEntry(key, "job", 1.0, 1, **values),
        ]
    return JobLedger.of(entries)


def test_same_failure_in_two_starts_is_not_started_a_third_time() -> None:
    repeated = repeated_start(ledger({}, {}), NOW, saves_checkpoints=True)
    assert repeated is not None
    assert repeated.why == (
        "started 2 times before with the same failure (ValueError: bad label 91 at train.py:12), no newer "
        "checkpoint since step 400; the code is the same. Change it, or set MABOOT_IGNORE_LEDGER=1"
    )


@pytest.mark.invariant("a start is ended by the ledger only if it is known to repeat a failure")
@pytest.mark.parametrize(
    "change",
    [
        {"words": "ValueError: bad label 92"},
        {"place": "train.py:13"},
        {"whole": "500"},
        {"code": 2},
        *({"kind": kind} for kind in ("transient", "unknown", "hardware", "retry-on", "")),
        {"words": ""},
        {"code": None},
        {"code": 0},
        *({"outcome": outcome} for outcome in (STOPPED, SUCCEEDED)),
        *({"digest": NOW._replace(**{name: "other"})} for name in RunDigest._fields),
    ],
)
def test_anything_else_starts(change: dict[str, Any]) -> None:
    for starts in ([change, {}], [{}, change], [{}, {}, change], [{}, change, {}]):
        assert repeated_start(ledger(*starts), NOW, saves_checkpoints=True) is None


@pytest.mark.parametrize(
    "change",
    [
        *({"kind": kind} for kind in ("transient", "unknown", "hardware", "retry-on", "")),
        {"words": ""},
        {"code": None},
        {"code": 0},
        *({"outcome": outcome} for outcome in (STOPPED, SUCCEEDED)),
        {"digest": NOW._replace(code="other")},
    ],
)
def test_two_equal_ends_that_are_no_repeated_failure_of_this_run_start(change: dict[str, Any]) -> None:
    assert repeated_start(ledger(change, change), NOW, saves_checkpoints=True) is None


@pytest.mark.parametrize("name", RunDigest._fields)
def test_unknown_digest_starts(name: str) -> None:
    unknown = NOW._replace(**{name: ""})
    both = ledger({"digest": unknown}, {"digest": unknown})
    assert repeated_start(both, unknown, saves_checkpoints=True) is None


def test_start_without_an_end_is_unknown() -> None:
    entries = ledger({}, {}).entries
    begun = LedgerEntry(EntryKey(3, "aaaaaaaa", 0, BEGUN), "job", 1.0, 1, digest=NOW)
    assert repeated_start(JobLedger.of([*entries, begun]), NOW, saves_checkpoints=True) is None


def test_starts_that_the_ledger_has_ended_are_no_evidence_and_no_gap() -> None:
    entries = ledger({}, {}).entries
    refused = entries[-1]._replace(key=EntryKey(3, "aaaaaaaa", 0, REFUSED))
    repeated = repeated_start(JobLedger.of([*entries, refused]), NOW, saves_checkpoints=True)
    assert repeated is not None
    assert repeated.times == 2


@pytest.mark.parametrize(
    ("steps", "saves", "is_stopped"),
    [
        ((3, 3), True, True),
        ((None, None), True, True),
        ((3, 8), True, False),
        ((3, 3), False, True),
        ((3, 8), False, False),
        ((None, None), False, False),
    ],
)
def test_without_a_complete_checkpoint_the_steps_show_progress(
    steps: tuple[int | None, int | None], saves: bool, is_stopped: bool
) -> None:
    starts = ledger(*({"whole": "", "step": step} for step in steps))
    assert (repeated_start(starts, NOW, saves_checkpoints=saves) is not None) == is_stopped


def test_failure_that_the_user_excludes_is_not_started_again() -> None:
    starts = ledger({"kind": "no-retry-on"})
    repeated = repeated_start(starts, NOW, saves_checkpoints=True)
    assert repeated is not None
    assert repeated.why.startswith("started once before with the same failure")


@given(
    st.lists(
        st.builds(
            LedgerEntry,
            st.builds(
                EntryKey,
                st.integers(0, 6),
                st.sampled_from(["a", "b"]),
                st.integers(0, 3),
                st.sampled_from([BEGUN, FAILED, SUCCEEDED, STOPPED, REFUSED]),
            ),
            st.text(max_size=3),
            st.floats(0, 10),
            st.integers(0, 3),
            digest=st.sampled_from([NOW, RunDigest()]),
            whole=st.sampled_from(["", "400"]),
            code=st.sampled_from([None, 0, 1]),
            words=st.sampled_from(["", "ValueError"]),
            kind=st.sampled_from(["", "x", *STARTS]),
        ),
        max_size=8,
    ),
    st.sampled_from([NOW, RunDigest()]),
    st.booleans(),
)
def test_any_ledger_has_a_verdict(entries: list[LedgerEntry], now: RunDigest, saves: bool) -> None:
    starts = JobLedger.of(entries)
    repeated = repeated_start(starts, now, saves)
    assert repeated is None or (repeated.entry.code == 1 and repeated.times >= STARTS[repeated.entry.kind])
    assert broken_server(starts) is None


def test_server_of_a_hardware_failure_is_that_of_the_start_before() -> None:
    broken = {"kind": "hardware", "server": "192.168.0.9"}
    assert broken_server(ledger({}, broken)) is not None
    assert broken_server(ledger(broken, {})) is None
    assert broken_server(ledger({"kind": "hardware"})) is None
