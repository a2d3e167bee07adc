"""The grammar of `--fault`: parsed and printed again, with an error message for every mistake."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.faults import KINDS, NOT_IN_CONTAINERS, PHASES, Fault, parse_faults
from ma_boot.errors import UsageError

SPANS = st.integers(0, 10**7).map(lambda milliseconds: milliseconds / 1000)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "rank": st.integers(0, 255),
    "node": st.integers(0, 31),
    "pod": st.integers(0, 31),
    "at": SPANS,
    "line": st.integers(1, 10**6),
    "phase": st.sampled_from(PHASES),
    "lasts": SPANS,
    "signal": st.sampled_from([name[3:] for name in signal.Signals.__members__]),
    "grace": SPANS,
    "size": st.integers(1, 10**9),
    "path": st.sampled_from(["/cache", "/home/ma-user/modelarts/log", "/data/火"]),
    "method": st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE"]),
    "key": st.text("ab/._-%=:é火", min_size=1),
    "times": st.integers(1, 10**6),
}


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """Any fault that a job of 32 nodes with 8 devices each can have."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    when = draw(st.sampled_from(["at", "line", "phase"]))
    if "times" in KINDS[kind].takes and KINDS[kind].stage == "node" and draw(st.booleans()):
        return Fault(kind, times=draw(VALUES["times"]))
    when = when if KINDS[kind].stage != "node" else draw(st.sampled_from(["at", "phase"]))
    taken = [name for name in KINDS[kind].takes if name == when or name not in ("at", "line", "phase")]
    taken = [name for name in taken if name != "times" or KINDS[kind].stage != "node"]
    chosen = [
        *KINDS[kind].needs,
        *draw(st.lists(st.sampled_from(taken), unique=True) if taken else st.just([])),
    ]
    return Fault(kind, **{name: draw(VALUES[name]) for name in chosen})


@given(st.lists(faults(), max_size=4))
def test_every_fault_has_words_and_they_mean_it(given_faults: list[Fault]) -> None:
    for fault in given_faults:
        assert parse_faults([str(fault)], 32, 8) == (fault,)


@given(st.text())
def test_any_text_is_a_fault_or_a_clear_mistake(text: str) -> None:
    try:
        parse_faults([text], 2, 2)
    except UsageError as error:
        assert "expected" in str(error)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill rank=3 at=5s", Fault("kill", rank=3, at=5.0)),
        ("kill signal=sigsegv rank=0 line=20", Fault("kill", rank=0, signal="SEGV", line=20)),
        ("stop phase=rank-table grace=500ms", Fault("stop", phase="rank table", grace=0.5)),
        ("table-late for=2m", Fault("table-late", lasts=120.0)),
        ("disk-full node=1 path=/cache size=8m", Fault("disk-full", node=1, path="/cache", size=8 << 20)),
        ("obs-503 key=data/ times=3", Fault("obs-503", key="data/", times=3)),
    ],
)
def test_the_documented_words(text: str, fault: Fault) -> None:
    assert parse_faults([text], 2, 2) == (fault,)


def test_all_mistakes_are_told_at_once_with_what_was_expected() -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(
            ["kil rank=1", "kill at=soon line=3 color=red", "kill rank=9", "stop phase=sleep phase=run"], 2, 2
        )
    message = str(caught.value)
    for part in (
        "--fault 'kil rank=1': found 'kil', expected one of kill, raise",
        "at=soon: expected a time such as 5s",
        "found 'color=red', expected rank=, signal=, at=, line=",
        "rank= is missing: expected a whole number from 0",
        "expected only one of at=, line=, phase=",
        "rank=9: expected 0 to 3: the job has 2 nodes x 2 devices",
        "phase=sleep: expected one of job, environment",
        "phase=: duplicate key",
    ):
        assert part in message
    assert caught.value.exit_code == 64


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["kill rank=1", "kill rank=1 signal=KILL"], None),
        (["kill rank=1 at=1s", "kill at=1000ms rank=1"], "--fault 'kill rank=1 at=1s': expected once"),
        (["table-late for=1s node=0", "table-lacks pod=0 node=1"], None),
        (["table-late for=1s", "table-lacks pod=0 node=1"], "expected at most one fault per rank table"),
        (
            ["table-lacks pod=0 node=1", "table-late for=1s node=1"],
            "expected at most one fault per rank table",
        ),
        (["absent node=1", "table-late for=1s node=0"], "expected at most one fault per rank table"),
        (["restart times=2 phase=run"], "expected times= alone"),
        (["rescheduled times=2 node=1"], None),
        (["absent node=1", "absent node=0"], "expected fewer than the job's 2 nodes"),
    ],
)
def test_faults_that_exclude_each_other_are_refused(texts: list[str], problem: str | None) -> None:
    if problem is None:
        assert len(parse_faults(texts, 2, 2)) == len(texts)
        return
    with pytest.raises(UsageError) as caught:
        parse_faults(texts, 2, 2)
    assert problem in str(caught.value)


def test_all_faults_that_containers_cannot_have_are_named_with_the_reason() -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(["bad-card node=0", "kill rank=0", "obs-503", "restart"], 2, 2, in_containers=True)
    assert str(caught.value).splitlines()[1:] == [
        f"  - --fault '{kind}': expected without --runner docker: {NOT_IN_CONTAINERS[name]}"
        for kind, name in (("bad-card node=0", "bad-card"), ("obs-503", "obs"), ("restart", "restart"))
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/home",
        "/home/ma-user",
        "/home/ma-user/modelarts/user-job-dir/x",
        "/user/config",
        "/cache/../../x",
    ],
)
def test_a_small_disk_neither_hides_the_code_nor_leaves_the_node(path: str) -> None:
    with pytest.raises(UsageError, match="expected a directory of the platform"):
        parse_faults([f"disk-full node=0 size=1m path={path}"], 2, 2)
