"""The agreement on a checkpoint, document by document, without a store and without a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ma_boot.node.checkpoints.records import attempt_protocol
from ma_boot.node.checkpoints.records.attempt_protocol import (
    FollowerAction,
    FollowerState,
    LeaderState,
    ListedAttempt,
    PlaceRefusal,
    Waiting,
    find_own_attempt,
    find_rival,
    must_withdraw,
)
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt

OLD, NEW = Attempt(1, "aaaa"), Attempt(2, "bbbb")
MEMBER = JobMember(1, 3, job="job", start="now")
LEADER = MEMBER._replace(node=0)


def listed(attempt: Attempt, *names: str) -> ListedAttempt:
    return ListedAttempt(attempt, {"begin.json", *names})


def reader(documents: Mapping[tuple[Attempt, str], Mapping[str, Any]]) -> attempt_protocol.Read:
    return lambda attempt, name: documents.get((attempt, name), {})


def begin(job: str = "job", start: str = "now", **more: Any) -> dict[str, Any]:
    return {"job": job, "start": start, "nodes": 3, **more}


def answer(node: int, boot: str, **more: Any) -> dict[str, Any]:
    return {"job": "job", "start": "now", "node": node, "boot": boot, "problem": "", **more}


@pytest.mark.parametrize(
    ("names", "document", "rival"),
    [
        ((), begin("other"), NEW),
        (("end.json",), begin("other"), None),
        (("withdrawn.json",), begin("other"), None),
        ((), begin("other", refused="in use"), None),
        ((), begin(), None),
        ((), {}, None),
    ],
)
def test_running_attempt_of_another_job_is_a_rival(
    names: tuple[str, ...], document: Mapping[str, Any], rival: Attempt | None
) -> None:
    attempts = [listed(NEW, *names)]
    assert find_rival(attempts, reader({(NEW, "begin.json"): document}), "job") == rival


def test_older_attempts_are_no_rivals_of_an_attempt_that_has_begun() -> None:
    read = reader({(OLD, "begin.json"): begin("other"), (NEW, "begin.json"): begin()})
    attempts = [listed(NEW), listed(OLD)]
    assert find_rival(attempts, read, "job", NEW) is None
    assert find_rival(attempts, read, "job", OLD) is None, "the newer one is of the same job"


def test_exactly_one_of_two_simultaneous_jobs_withdraws_at_once() -> None:
    for mine, rival in ((OLD, NEW), (Attempt(1, "aaaa"), Attempt(1, "bbbb"))):
        assert must_withdraw(rival, mine)
        assert not must_withdraw(mine, rival)


@pytest.mark.parametrize(
    ("names", "document", "found"),
    [
        ((), begin(), listed(NEW)),
        ((), begin(start="before"), None),
        ((), begin("other"), None),
        ((), begin(nodes=2), None),
        (("end.json",), begin(), None),
        ((), begin(refused="in use"), PlaceRefusal("in use")),
    ],
)
def test_follower_finds_the_newest_attempt_of_its_start(
    names: tuple[str, ...], document: dict[str, Any], found: ListedAttempt | PlaceRefusal | None
) -> None:
    read = reader({(NEW, "begin.json"): document})
    assert find_own_attempt([listed(NEW, *names)], read, MEMBER, take_over=False) == found


def test_follower_reads_the_reason_of_a_withdrawal_also_with_take_over() -> None:
    read = reader({(NEW, "begin.json"): begin(), (NEW, "withdrawn.json"): {"refused": "second"}})
    attempts = [listed(NEW, "withdrawn.json")]
    assert find_own_attempt(attempts, read, MEMBER, take_over=True) == PlaceRefusal("second")


def test_leader_gathers_one_boot_of_each_node() -> None:
    state = LeaderState(LEADER, {0: "b0"})
    names = ["ready-00001-b1.json", "ready-00002-b2.json", "sign-00002-b2-0.json"]
    assert state.unread(names) == names[:2]
    state = state.with_answers(names[:2], [answer(1, "b1"), answer(2, "b2")])
    assert (state.missing, state.unread(names)) == ([], [])
    assert state.go == {"boots": ["b0", "b1", "b2"]}


@pytest.mark.parametrize(
    "invalid",
    [
        None,
        [],
        {},
        answer(1, "b1", job="other"),
        answer(1, "b1", start="before"),
        answer(0, "b0"),
        answer(3, "b3"),
        {**answer(1, "b1"), "boot": 7},
        {**answer(1, "b1"), "node": "1"},
    ],
)
def test_leader_ignores_invalid_answers_and_those_of_other_starts(invalid: Any) -> None:
    state = LeaderState(LEADER, {0: "b0"}).with_answers(["ready-00001-b1.json"], [invalid])
    assert (state.missing, state.damage, state.repeated) == ([1, 2], "", None)


def test_damage_and_a_repeated_node_end_the_attempt() -> None:
    state = LeaderState(LEADER, {0: "b0"})
    damaged = state.with_answers(["a", "b"], [answer(1, "b1", problem="gone"), answer(2, "b2")])
    assert damaged.damage == "node 1: gone"
    repeated = state.with_answers(["a", "b"], [answer(1, "b1"), answer(1, "b9")])
    assert repeated.repeated == 1


@pytest.mark.parametrize(
    ("joined", "newest", "is_listed", "action"),
    [
        (None, None, True, FollowerAction.WAIT),
        (None, listed(NEW), True, FollowerAction.JOIN),
        (None, listed(NEW, "go.json"), True, FollowerAction.WAIT),
        (OLD, listed(NEW), True, FollowerAction.JOIN),
        (NEW, listed(NEW), True, FollowerAction.WAIT),
        (NEW, listed(NEW), False, FollowerAction.READ_GO),
        (NEW, listed(NEW, "go.json"), True, FollowerAction.READ_GO),
    ],
)
def test_follower_joins_the_newest_attempt_and_then_waits_for_the_go(
    joined: Attempt | None, newest: ListedAttempt | None, is_listed: bool, action: FollowerAction
) -> None:
    assert FollowerState(MEMBER, joined, newest).action(is_listed) is action


def test_pauses_grow_until_there_is_news() -> None:
    first, longest = attempt_protocol.LOOK_SECONDS
    waiting = Waiting.begin(0.0)
    assert waiting.pause == first
    for _ in range(20):
        waiting = waiting.after_pause()
    assert waiting.pause == longest
    known = waiting.with_listing(["a"], 5.0)
    assert (known.pause, known.since) == (first, 5.0)
    same = known.after_pause().with_listing(["a"], 9.0)
    assert (same.pause, same.since, same.listed) == (first * 1.5, 5.0, 9.0)


def test_many_nodes_list_less_often() -> None:
    waiting = Waiting.begin(0.0).with_listing([str(number) for number in range(2000)], 10.0)
    seconds = 1000 * 3 / attempt_protocol.LISTINGS_A_SECOND
    assert not waiting.may_list(1000, 10.0 + seconds - 0.01)
    assert waiting.may_list(1000, 10.0 + seconds)
