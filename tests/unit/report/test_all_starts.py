"""All starts of a job by its ledger: rows, the use of the node time, restarts; in events, and on the page."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.report.job_ledger import (
    BEGUN,
    FAILED,
    REFUSED,
    STOPPED,
    SUCCEEDED,
    EntryKey,
    JobLedger,
    LedgerEntry,
    entry_fields,
    read_fields,
)
from ma_boot.report.page.starts import MOST_STARTS, starts_lines
from ma_boot.report.timeline.all_starts import (
    END,
    HANGS,
    INPUTS,
    LOST,
    START,
    USEFUL,
    AllStarts,
    PlatformTimes,
    all_starts,
)
from tests.synthetic import BEGAN
from tests.unit.report.ledgers import FIELDS, JSON, SURVIVED, begun, entry, failed, node
from tests.unit.report.page.seen import Seen, line_of, node_with, seen

OUTCOMES = (BEGUN, FAILED, SUCCEEDED, STOPPED, REFUSED)


def starts_of(*entries: LedgerEntry) -> AllStarts:
    return all_starts(JobLedger.of(entries))


def page_of(*entries: LedgerEntry, code: int = 0) -> Seen:
    return seen(node(*entries, code=code))


def test_node_time_of_all_starts_is_split_by_its_use() -> None:
    starts = starts_of(*SURVIVED)
    spent = starts.spent
    assert sum(spent.values()) == sum(each.paid for each in SURVIVED)
    assert spent == {USEFUL: 580.0, START: 140.0, INPUTS: 120.0, LOST: 120.0, HANGS: 40.0, END: 60.0}
    # 80 s and 90 s: each entry of a beginning has paid 10 s of two nodes.
    assert starts.between == 170.0


@given(st.lists(st.sampled_from(OUTCOMES), max_size=8), FIELDS)
def test_parts_of_any_entries_are_the_paid_time(outcomes: list[str], fields: dict[str, Any]) -> None:
    entries = [
        read_fields(
            {**fields, "job": "j", "at": BEGAN, "nodes": 2, "entry": str(EntryKey(1, "0" * 8, at, o))}
        )
        for at, o in enumerate(outcomes)
    ]
    starts = starts_of(*filter(None, entries))
    assert all(seconds >= 0 for seconds in starts.spent.values())
    paid = sum(each.paid for each in entries if each is not None)
    assert sum(starts.spent.values()) == pytest.approx(paid)
    json.dumps(starts_lines(starts))


def test_restarts_are_those_since_the_last_success() -> None:
    assert starts_of(*SURVIVED).restarts == (4, 2)
    again = [begun(4, 900), failed(4, 1, 950), begun(5, 990)]
    assert starts_of(*SURVIVED, *again).restarts == (1, 0)
    assert starts_of(*SURVIVED[:4], entry(3, 0, REFUSED, 410)).restarts == (2, 1)
    assert starts_of().restarts == (0, 0)


def test_start_that_was_killed_has_an_unknown_end_and_no_time_after_it() -> None:
    starts = starts_of(begun(1, 10), begun(2, 300), entry(2, 1, SUCCEEDED, 400))
    assert [start.before for start in starts.starts] == [None, None]
    assert "end unknown" in starts_lines(starts)[2]


def test_ledger_is_read_from_events_as_it_was_written() -> None:
    (line,) = (line_of(node(*SURVIVED)),)
    assert line.starts == starts_of(*SURVIVED)


@given(st.lists(FIELDS | JSON, max_size=4) | JSON)
def test_any_ledger_in_events_leaves_a_page(entries: object) -> None:
    writer = node_with(end=2)
    valid = [{"entry": str(each.key), "job": "j", "at": 1e15, "nodes": 10**15} for each in SURVIVED]
    parts = [*entries, *valid] if isinstance(entries, list) else entries
    writer.at(1, "ledger", entries=json.loads(json.dumps(parts)))
    assert "</html>" in seen(writer).page


def test_hostile_entries_are_escaped_and_printable() -> None:
    bad = failed(2, 1, 400, words="<script>\x1b[31m\u202eevil", place="<b>", whole="<i>", server="</td>")
    shown = page_of(*SURVIVED[:4], bad, code=1)
    section = shown.section("starts")
    assert "<script>" not in section
    assert "\u202e" not in shown.page
    assert "\x1b" not in shown.page
    cleaned = read_fields(entry_fields(bad))
    assert cleaned is not None
    assert all(line.isprintable() for line in starts_lines(starts_of(*SURVIVED[:4], cleaned)))


def test_headline_counts_the_restarts_of_all_starts() -> None:
    succeeded = "The job succeeded after 4 restarts (2 in place): its process ended with exit code 0."
    assert page_of(*SURVIVED).headline == succeeded
    again = page_of(*SURVIVED[:5], code=1).headline
    assert again.startswith("Rank 0 on node 0 failed first after 2 restarts (1 in place)")


def test_page_has_a_row_and_a_bar_for_each_start() -> None:
    shown = page_of(*SURVIVED)
    rows = shown.rows("starts")
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[0][2:] == ["", "2", "2", "7 min 0 s", "3 min 20 s", "400", "failed: OSError: lost"]
    assert rows[2][2:] == ["90.0 s", "2", "1", "3 min 40 s", "3 min 0 s", "900", "succeeded"]
    section = shown.section("starts")
    assert "3 starts, useful node time 9 min 40 s of 17 min 40 s (55%)" in section
    assert section.count("<title>start ") == 3
    assert "本作业的各次启动" in shown.page


def test_page_of_a_first_start_has_no_section_of_starts() -> None:
    assert page_of(begun(1, 10), entry(1, 1, SUCCEEDED, 110)).section("starts") == ""


def test_page_of_a_full_ledger_is_little_longer() -> None:
    few = page_of(begun(1, 10), entry(1, 1, SUCCEEDED, 110))
    many = [each for n in range(1, 101) for each in (begun(n, n * 500), failed(n, 1, n * 500 + 100))]
    full = page_of(*many, code=1)
    assert len(full.rows("starts")) == MOST_STARTS
    assert "and 60 earlier ones" in full.section("starts")
    assert len(full.page) - len(few.page) < 40_000
    places = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)"', full.section("starts"))
    assert all(0 <= float(left) <= float(right) <= 1000 for left, right in places)


PLATFORM = PlatformTimes(
    BEGAN - 600, ((BEGAN - 60, BEGAN + 212), (BEGAN + 280, BEGAN + 505), (BEGAN + 560, 0.0))
)


def test_gaps_have_a_queue_by_the_times_of_the_platform() -> None:
    starts = all_starts(JobLedger.of(SURVIVED), PLATFORM)
    assert [(start.queue, start.before) for start in starts.starts] == [(540, 600), (68, 78), (55, 85)]
    assert [line.split()[3] for line in starts_lines(starts)[2:]] == ["10", "78.0", "85.0"]
    assert (
        "before and between the starts 12 min 43 s: queue 11 min 3 s, image and code 1 min 40 s"
        in (starts_lines(starts)[0])
    )


def test_start_in_the_same_container_has_no_queue() -> None:
    one = PLATFORM._replace(starts=PLATFORM.starts[:1])
    starts = all_starts(JobLedger.of(SURVIVED), one)
    assert [start.queue for start in starts.starts] == [540, None, None]
    assert [start.before for start in starts.starts] == [600, 80, 90]


@given(st.floats(0, 1e18), st.lists(st.tuples(st.floats(0, 1e18), st.floats(0, 1e18)), max_size=4))
def test_any_times_of_the_platform_leave_a_table(created: float, records: list[tuple[float, float]]) -> None:
    starts = all_starts(JobLedger.of(SURVIVED), PlatformTimes(created, tuple(records)))
    assert starts.between >= starts.queued >= 0
    assert len(starts_lines(starts)) == 5
