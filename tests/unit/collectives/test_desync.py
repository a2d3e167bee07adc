"""Collectives of ranks that hang, compared: of schedules that are simulated, of dumps of PyTorch, of nonsense."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.observe.collectives.desync import Desync, Difference, StuckGroup, lines_of
from ma_boot.node.observe.collectives.record_messages import (
    decode_record,
    decode_stuck,
    encode_record,
    encode_stuck,
    numbers_in,
)
from ma_boot.node.observe.collectives.records import RankRecord, decode_dump, with_place
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport


class Call(NamedTuple):
    group: str
    op: str = "all_reduce"
    size: int = 4


Programs = dict[int, list[Call]]


def simulated(
    programs: Programs, groups: Mapping[str, Sequence[int]], backend: str, ahead: int
) -> dict[int, dict[str, Any]]:
    """Runs the programs until none can go on; a rank may be `ahead` of that many collectives that are not done."""
    entered: dict[int, list[Call]] = {rank: [] for rank in programs}

    def count(rank: int, group: str) -> int:
        return sum(call.group == group for call in entered[rank])

    def is_done(rank: int, number: int) -> bool:
        call = entered[rank][number]
        place = sum(earlier.group == call.group for earlier in entered[rank][:number]) + 1
        return all(count(member, call.group) >= place for member in groups[call.group])

    moved = True
    while moved:
        moved = False
        for rank, program in programs.items():
            at = len(entered[rank])
            open_ones = sum(not is_done(rank, number) for number in range(at))
            if at < len(program) and open_ones <= ahead:
                entered[rank].append(program[at])
                moved = True
    return {
        rank: dump(
            [(call, is_done(rank, number)) for number, call in enumerate(entered[rank])],
            groups,
            backend,
            rank,
        )
        for rank in programs
    }


def dump(
    calls: Sequence[tuple[Call, bool]], groups: Mapping[str, Sequence[int]], backend: str, rank: int
) -> dict[str, Any]:
    """The dump of one rank, as PyTorch 2.13 makes it."""
    seqs: dict[str, int] = {}
    entries = []
    for number, (call, done) in enumerate(calls):
        seqs[call.group] = seqs.get(call.group, 0) + 1
        state = {"state": "scheduled", "retired": done} if backend == "gloo" else {
            "state": "completed" if done else "started", "retired": done,
        }  # fmt: skip
        entries.append({
            "record_id": number, "pg_id": 0, "process_group": [call.group, f"d{call.group}"], "is_p2p": False,
            "collective_seq_id": seqs[call.group], "p2p_seq_id": 0, "profiling_name": f"{backend}:{call.op}",
            "input_sizes": [[call.size]], "input_dtypes": ["Float"], **state,
            "frames": [{"name": "all_reduce", "filename": "/x/torch/distributed/c10d.py", "line": 7},
                       {"name": "step", "filename": "/code/train.py", "line": 88}],
        })  # fmt: skip
    config = {name: {"ranks": str(list(members))} for name, members in groups.items() if rank in members}
    return {
        "version": "2.10",
        "entries": entries,
        "pg_config": config if backend != "gloo" else {},
        "pg_status": {},
    }


def decoded(dumps: Mapping[int, Any], groups: Mapping[str, Sequence[int]]) -> dict[int, RankRecord]:
    found = {
        rank: decode_dump(dump, {name: list(m) for name, m in groups.items() if rank in m})
        for rank, dump in dumps.items()
    }
    return {rank: record for rank, record in found.items() if record is not None}


class Job(NamedTuple):
    groups: dict[str, list[int]]
    programs: Programs
    culprit: int
    at: int


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job whose ranks have the same program, each in its own groups, and a rank that leaves it at a place."""
    world = draw(st.integers(2, 6))
    groups = {"0": list(range(world))}
    for number in range(1, draw(st.integers(1, 4))):
        members = draw(st.sets(st.integers(0, world - 1), min_size=2))
        groups[str(number)] = sorted(members)
    order = draw(st.lists(st.sampled_from(sorted(groups)), min_size=1, max_size=12))
    ops = draw(
        st.lists(st.sampled_from(["all_reduce", "broadcast"]), min_size=len(order), max_size=len(order))
    )
    calls = [Call(group, op) for group, op in zip(order, ops)]
    programs = {rank: [call for call in calls if rank in groups[call.group]] for rank in range(world)}
    culprit = draw(st.sampled_from([rank for rank in programs if programs[rank]] or [0]))
    return Job(groups, programs, culprit, draw(st.integers(0, max(0, len(programs[culprit]) - 1))))


@given(jobs(), st.sampled_from(["gloo", "nccl"]))
def test_a_rank_that_stops_is_always_named(job: Job, backend: str) -> None:
    programs = {**job.programs, job.culprit: job.programs[job.culprit][: job.at]}
    records = decoded(simulated(programs, job.groups, backend, 0), job.groups)
    desync = Desync.of(records)
    if any(group.pending for record in records.values() for group in record.groups):
        assert desync.accused is not None
        assert desync.accused.rank == job.culprit
        assert desync.accused.why.endswith("at train.py:88")
    else:
        assert desync == Desync()


@given(jobs(), st.sampled_from(["gloo", "nccl"]), st.integers(0, 6), st.data())
def test_a_rank_that_stops_among_ranks_that_run_ahead_is_named_or_none(
    job: Job, backend: str, ahead: int, data: st.DataObject
) -> None:
    programs = {**job.programs, job.culprit: job.programs[job.culprit][: job.at]}
    records = decoded(simulated(programs, job.groups, backend, ahead), job.groups)
    without = data.draw(st.sets(st.sampled_from(sorted(programs))))
    accused = Desync.of({rank: record for rank, record in records.items() if rank not in without}).accused
    assert accused is None or accused.rank == job.culprit


@given(jobs(), st.sampled_from(["skip", "other", "size"]), st.integers(0, 3))
def test_a_rank_with_another_program_is_named_or_none(job: Job, kind: str, ahead: int) -> None:
    program = list(job.programs[job.culprit])
    if program:
        call = program[job.at]
        program[job.at : job.at + 1] = {
            "skip": [], "other": [call._replace(op="reduce")], "size": [call._replace(size=5)],
        }[kind]  # fmt: skip
    dumps = simulated({**job.programs, job.culprit: program}, job.groups, "nccl", ahead)
    accused = Desync.of(decoded(dumps, job.groups)).accused
    assert accused is None or accused.rank == job.culprit


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(jobs(), st.integers(0, 2**32), NONSENSE)
def test_dumps_with_nonsense_raise_nothing_and_pass_messages(job: Job, seed: int, nonsense: Any) -> None:
    chance = random.Random(seed)
    dumps = simulated(job.programs, job.groups, "nccl", 2)
    for dump in dumps.values():
        for place in [dump, *dump["entries"]]:
            if place and chance.random() < 0.3:
                place[chance.choice(sorted(place))] = nonsense
    records = decoded(dumps, job.groups)
    lines_of(Desync.of(records).groups)
    for record in records.values():
        assert decode_record(encode_record(record, 64)).awaits_message == record.awaits_message
    assert decode_dump(nonsense, nonsense) is None or isinstance(nonsense, dict)


GROUPS = {"0": [0, 1, 2, 3], "1": [2, 3]}
FOUR = [Call("0"), Call("1"), Call("1"), Call("1"), Call("1"), Call("0")]


def of_four(culprit: Sequence[Call], rank: int = 3) -> dict[int, RankRecord]:
    programs = {r: [call for call in FOUR if r in GROUPS[call.group]] for r in range(4)}
    return decoded(simulated({**programs, rank: list(culprit)}, GROUPS, "nccl", 0), GROUPS)


def test_chain_of_waits_ends_at_the_missing_rank() -> None:
    """Ranks 0 and 1 wait for rank 2 in the group of all, and that one for rank 3 in its own group."""
    desync = Desync.of(of_four(FOUR[:3]))
    assert desync.accused is not None
    assert (desync.accused.rank, desync.accused.why) == (
        3, "never entered all_reduce 3 of group d1, in which rank 2 waits, at train.py:88",
    )  # fmt: skip
    assert lines_of(desync.groups) == [
        "all_reduce 3 of group d1, at train.py:88: rank 2 in it, rank 3 not",
        "all_reduce 2 of group d0, at train.py:88: ranks 0-1 in it, ranks 2-3 not",
    ]


def test_single_rank_with_another_size_is_named() -> None:
    calls = {rank: [(Call("0", size=5 if rank == 2 else 4), False)] for rank in range(4)}
    dumps = {rank: dump(of, {"0": [0, 1, 2, 3]}, "gloo", rank) for rank, of in calls.items()}
    desync = Desync.of(decoded(dumps, {"0": [0, 1, 2, 3]}))
    assert desync.accused is not None
    assert desync.accused.rank == 2
    assert desync.groups[0].differs == (
        Difference((2,), "all_reduce Float [5]"), Difference((0, 1, 3), "all_reduce Float [4]"),
    )  # fmt: skip


def test_differing_operations_of_two_ranks_accuse_none() -> None:
    dumps = {
        rank: dump([(Call("0", op), False)], {"0": [0, 1]}, "nccl", rank)
        for rank, op in enumerate(["all_reduce", "broadcast"])
    }
    desync = Desync.of(decoded(dumps, {"0": [0, 1]}))
    assert desync.accused is None
    assert "rank 0 entered all_reduce Float [4]" in lines_of(desync.groups)


def test_missing_rank_that_waits_for_a_message_is_not_accused() -> None:
    records = of_four(FOUR[:3])
    assert Desync.of({**records, 3: records[3]._replace(awaits_message=True)}).accused is None


def test_missing_rank_whose_recorder_has_dropped_the_group_is_not_accused() -> None:
    records = of_four(FOUR[:1])
    rank = records[3]._replace(is_cut=True, groups=records[3].groups[:1])
    assert all(group.outside != (3,) for group in Desync.of({**records, 3: rank}).groups)


def test_members_of_a_large_launch_are_not_compared() -> None:
    entries = [(Call("0"), False)] * 2
    made = {rank: dump(entries, {"0": [0, 1]}, "nccl", rank) for rank in (0, 1)}
    for entry in made[0]["entries"]:
        entry["collective_seq_id"] = 1
    assert Desync.of(decoded(made, {"0": [0, 1]})).groups[0].differs == ()


def test_line_of_a_stack_is_added_to_the_only_waiting_collective() -> None:
    made = dump([(Call("0"), True), (Call("0"), False)], {"0": [0, 1]}, "gloo", 0)
    for entry in made["entries"]:
        del entry["frames"]
    record = decode_dump(made)
    assert record is not None
    assert [found.place for found in with_place(record, "train.py:3").groups[0].latest] == ["", "train.py:3"]


def test_stuck_groups_survive_a_message() -> None:
    group = StuckGroup("tp", 4, "all_reduce", (0, 1, 2, 9), (5,), "a.py:1", (Difference((5,), "x"),))
    assert decode_stuck(encode_stuck([group])) == (group,)
    assert numbers_in("") == ()
    assert len(numbers_in("0-999999999")) == 4096


@pytest.mark.parametrize(
    ("function", "named"),
    [("load (data.py:3)", True), ("recv (torch/distributed/distributed_c10d.py:9)", False)],
)
def test_missing_rank_that_receives_is_not_suspected(function: str, named: bool) -> None:
    stacks = {3: f'Thread 1 (idle): "MainThread"\n    {function}\n', 2: ""}
    ranks = [
        RankAtHang(rank, 0, stacks.get(rank, ""), record=record) for rank, record in of_four(FOUR[:3]).items()
    ]
    found = StacksReport.of(ranks, ()).suspect
    assert (found is not None and "never entered" in found.why) == named
