"""Which files belong to an explicit step, where they may have any names."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, strategies as st

from ma_boot.node.checkpoints.calls import Calls, CallTimes, read_calls
from ma_boot.node.checkpoints.steps import Decision, Disk, NodeSteps
from ma_boot.node.checkpoints.steps_by_calls import decide_by_calls
from path_mapping.localfs.source_file import FileState


def states(**times: int) -> dict[str, FileState]:
    """Files and when they were written; `__` in a name is `/`, `_dot_` is `.`."""
    return {
        name.replace("__", "/").replace("_dot_", "."): FileState(1, time, 1) for name, time in times.items()
    }


def decide(
    files: Mapping[str, FileState],
    calls: Mapping[int, tuple[int, int]],
    known: NodeSteps | None = None,
    **errors: str,
) -> Decision:
    noted = Calls(dict.fromkeys(calls, 1), {}, {step: CallTimes(*times) for step, times in calls.items()})
    return decide_by_calls(Disk(files, errors), known or NodeSteps((0,)), noted)


def taken(decision: Decision) -> list[tuple[str, list[str]]]:
    return [(one.step.name, sorted(one.files)) for one in decision.complete]


def test_a_step_has_the_files_written_since_the_call_before() -> None:
    files = states(a=1, b=2, c=4, d=6)
    assert taken(decide(files, {10: (3, 3), 20: (5, 5)})) == [("10", ["a", "b"]), ("20", ["c"])]


def test_files_of_an_earlier_start_belong_to_no_step() -> None:
    files = states(old=1, changed=3, new=3)
    known = NodeSteps((0,), states(old=1, changed=1))
    assert taken(decide(files, {10: (4, 4)}, known)) == [("10", ["changed", "new"])]


def test_unfinished_files_and_logs_belong_to_no_step() -> None:
    files = states(a=1, b_dot_tmp=1, train_dot_log=1, events_dot_out_dot_tfevents_dot_17_dot_x=1)
    assert taken(decide(files, {10: (2, 2)})) == [("10", ["a"])]


def test_a_file_that_was_written_again_too_early_tears_its_step() -> None:
    """best.pt of step 20 replaced that of step 10 before it was taken."""
    torn = decide(states(best=5), {10: (3, 3)})
    assert not torn.complete
    assert list(torn.waiting.values()) == ["best was written again before it was taken"]
    first = decide(states(best=2), {10: (3, 3)}).complete[0]
    known = NodeSteps((0,), taken={10: first})
    both = decide(states(best=7, step_20=4), {10: (3, 3), 20: (5, 5)}, known)
    assert not both.complete
    assert list(both.waiting.values()) == ["best was removed or written again before it was published"]


def test_a_call_without_files_is_reported_where_no_other_node_saves() -> None:
    decision = decide({}, {10: (3, 3)})
    assert list(decision.waiting.values()) == ["no file was written since the call before"]
    others = decide({}, {10: (3, 3)}, NodeSteps((0,), alone=False))
    assert taken(others) == [("10", [])], "this node saves nothing"


def test_next_step_of_a_rank_ahead_is_recognised_by_its_number() -> None:
    files = states(step_1__r0=1, step_2__r0=4, step_1__r1=5, common=5)
    assert taken(decide(files, {1: (2, 6)}, NodeSteps((0, 1)))) == [
        ("1", ["common", "step_1/r0", "step_1/r1"])
    ]
    untimed = Calls({1: 1, 2: 1}, {})
    decision = decide_by_calls(Disk(files), NodeSteps((0, 1)), untimed)
    assert taken(decision) == [("1", ["common", "step_1/r0", "step_1/r1"]), ("2", ["step_2/r0"])]


def test_a_broken_link_beside_the_files_of_a_step_is_an_error_of_it() -> None:
    linked = decide(states(step_1__a=1), {1: (2, 2)}, None, **{"step_1/b": "a link out of the output"})
    assert list(linked.waiting.values()) == ["step_1/b: a link out of the output"]
    elsewhere = decide(states(step_1__a=1), {1: (2, 2)}, None, data="a link out of the output")
    assert taken(elsewhere) == [("1", ["step_1/a"])]


def test_step_called_again_has_its_old_and_new_files() -> None:
    first = decide(states(a=1, b=1), {1: (2, 2)}).complete[0]
    again = Calls({1: 2}, {}, {1: CallTimes(5, 5)})
    decision = decide_by_calls(Disk(states(a=4, b=1)), NodeSteps((0,), taken={1: first}), again)
    assert [(one.version, one.files) for one in decision.complete] == [(2, states(a=4, b=1))]


def test_the_times_of_a_call_are_those_of_its_first_and_last_rank() -> None:
    lines = ['{"step": 7, "rank": 0, "time_ns": 30}', '{"step": 7, "rank": 1, "time_ns": 10}']
    noted = read_calls(lines, (0, 1))
    assert noted is not None
    assert noted.times == {7: CallTimes(10, 30)}
    for without in ('{"step": 7, "rank": 1}', '{"step": 7, "rank": 1, "time_ns": null}'):
        noted = read_calls([lines[0], without], (0, 1))
        assert noted is not None
        assert (noted.steps, noted.times) == ({7: 1}, {})
    assert read_calls(['{"step": 7, "rank": 0, "time_ns": "x"}'], (0,)) is None


def test_the_times_of_calls_are_known_for_all_steps_or_for_none() -> None:
    noted = read_calls(['{"step": 7, "rank": 0, "time_ns": 5}', '{"step": 8, "rank": 0}'], (0,))
    assert noted is not None
    assert (noted.steps, noted.times) == ({7: 1, 8: 1}, {})


FILES = st.dictionaries(
    st.sampled_from(["step_1/a", "step_2/a", "1.pt", "2.pt", "best.pt", "m_0.pt", "m_1.pt"]),
    st.integers(0, 9),
)


@given(FILES, st.lists(st.integers(1, 9), unique=True, max_size=3).map(sorted), st.booleans())
def test_no_file_is_in_two_steps_and_none_is_younger_than_its_call(
    written: dict[str, int], times: list[int], has_times: bool
) -> None:
    calls = {step: (time, time) for step, time in enumerate(times, 1)}
    files = {path: FileState(1, time, 1) for path, time in written.items()}
    noted = Calls(
        dict.fromkeys(calls, 1),
        {},
        {step: CallTimes(*time) for step, time in calls.items()} if has_times else {},
    )
    decision = decide_by_calls(Disk(files), NodeSteps((0,)), noted)
    paths = [path for one in decision.complete for path in one.files]
    assert len(paths) == len(set(paths))
    assert len(decision.complete) + len(decision.waiting) == len(calls)
    if has_times:
        for one in decision.complete:
            assert all(state.mtime_ns <= calls[one.step.number][1] for state in one.files.values())
        if calls and len(decision.complete) == len(calls):
            assert set(paths) == {path for path, time in written.items() if time <= times[-1]}
