"""Rules of node 0's decision after an attempt: all nodes run again, or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.peers.job_restart import (
    AttemptEnd,
    FailureSignature,
    RestartPolicy,
    decide,
    read_end,
    read_verdict,
    signature_of,
)
from ma_boot.report.cause import LOST_PEER, Cause
from ma_boot.report.page.language import in_both
from ma_boot.wording import Message, coded

BAD = Cause(1, 3, 1, "ValueError: bad label 91", 5.0, place="train.py:7")
END = AttemptEnd(1)._asdict()


OOM = BAD._replace(words="out of memory: the kernel killed 2 of 8 processes", place="")
KILL = BAD._replace(words="was killed by SIGKILL", place="")
LOST = BAD._replace(words="RuntimeError: Connection closed by peer [10.0.0.7]:41327", evidence=LOST_PEER)


def ends(whole: str = "20", **more: Any) -> dict[int, AttemptEnd]:
    """Reports of two nodes, the second one with more fields."""
    return {0: AttemptEnd(1, whole=whole), 1: AttemptEnd(1, **{"whole": whole, **more})}


def failed(cause: Cause, whole: str = "20") -> FailureSignature:
    return signature_of(ends(whole), cause)


@pytest.mark.parametrize(
    ("ends_of_nodes", "cause", "earlier", "again", "rule", "why"),
    [
        (ends(), BAD, [], True, "unknown", "node 1, rank 3: ValueError: bad label 91, at train.py:7"),
        (ends(unhealthy="card 2 is lost"), BAD, [], False, "hardware",
         "hardware: needs new pods (node 1: card 2 is lost)"),
        (ends(), BAD._replace(words="OSError: [Errno 28] No space left on device"), [], False, "hardware",
         "hardware: needs new pods (node 1, rank 3: OSError: [Errno 28] No space left on device, at train.py:7)"),
        (ends(final="a process could not be killed"), BAD, [], False, "processes",
         "node 1: a process could not be killed"),
        (ends(), KILL._replace(code=2, words="ended with exit code 2"), [], False, "configuration",
         "a configuration error (wrong use of the command): node 1, rank 3 ended with exit code 2"),
        (ends(), BAD._replace(words="ModuleNotFoundError: No module named 'apex'"), [], False, "configuration",
         "a configuration error (it fails in the same way again): node 1, rank 3: "),
        (ends(""), BAD._replace(words="FileNotFoundError: data"), [], False, "configuration",
         "a configuration error (a file is missing before the first step): node 1, rank 3: "),
        (ends("", stepped=True), BAD._replace(words="FileNotFoundError: data"), [], True, "unknown", "node 1"),
        (ends("20"), BAD._replace(words="FileNotFoundError: data"), [], True, "unknown", "node 1"),
        (ends(seconds=4.9), BAD, [], False, "start-up",
         "node 1: it failed within its first 5 s (MABOOT_START_SECONDS)"),
        (ends(seconds=5.0), BAD, [], True, "unknown", "node 1"),
        (ends(), BAD, [failed(BAD)], False, "repeated",
         "same failure twice with no newer complete checkpoint"),
        (ends(""), BAD, [failed(BAD, "")], False, "repeated", "same failure twice without a checkpoint"),
        (ends(), BAD, [failed(BAD, "10")], True, "unknown", "node 1"),
        (ends(), BAD, [failed(BAD._replace(place="train.py:9"))], True, "unknown", "node 1"),
        (ends(), BAD, [failed(BAD._replace(rank=0, node=0))], False, "repeated", "same failure twice"),
        (ends(), OOM, [failed(OOM)], False, "repeated", "same failure twice"),
        (ends(), KILL, [failed(KILL)], True, "unknown", "node 1, rank 3 was killed by SIGKILL"),
        (ends(), KILL, [failed(KILL)] * 2, False, "repeated", "same failure 3 times"),
        (ends(), None, [signature_of(ends(), None)], True, "unknown", "the ranks hung"),
        (ends(), LOST, [failed(LOST)], True, "transient", "node 1"),
        (ends(), LOST._replace(words=LOST.words.replace("41327", "52012")), [failed(LOST)] * 2, False, "repeated",
         "same failure 3 times"),
        (ends(), BAD, [failed(KILL)] * 3, False, "budget", "the job's 3 restarts are used up"),
    ],
)  # fmt: skip
def test_verdict_names_the_first_rule_that_holds(
    ends_of_nodes: dict[int, AttemptEnd],
    cause: Cause | None,
    earlier: Sequence[FailureSignature],
    again: bool,
    rule: str,
    why: str,
) -> None:
    verdict = decide(1, ends_of_nodes, RestartPolicy(3, 5.0), cause, earlier)
    assert (verdict.again, verdict.rule) == (again, rule)
    assert verdict.why.startswith(why)


def test_newest_checkpoint_has_the_highest_step_number() -> None:
    assert signature_of({0: AttemptEnd(1, whole="100"), 1: AttemptEnd(1, whole="20")}, BAD).whole == "100"


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "10", "20"])), max_size=12),
    st.integers(0, 5),
)
def test_no_schedule_of_failures_uses_more_than_the_budget(
    failures: Sequence[tuple[str, str]], budget: int
) -> None:
    earlier: list[FailureSignature] = []
    for number, (words, whole) in enumerate(failures, 1):
        cause, ends = BAD._replace(words=words), {0: AttemptEnd(number, whole=whole)}
        if not decide(number, ends, RestartPolicy(budget), cause, earlier).again:
            break
        earlier.append(signature_of(ends, cause))
    assert len(earlier) <= budget
    assert len(set(earlier)) == len(earlier), "no restart repeats a failure without progress"


@pytest.mark.parametrize(
    "body",
    [{}, {"again": 1}, {"attempt": 1, "again": "yes", "why": "", "rule": ""},
     {"attempt": 1, "again": True, "why": "", "rule": 4}, {**END, "attempt": "1"}, {**END, "final": 3},
     {**END, "seconds": "1"}, {**END, "stepped": 0}, {**END, "unhealthy": None}],
)  # fmt: skip
def test_invalid_messages_of_the_restart_protocol_are_dropped(body: dict[str, object]) -> None:
    assert read_end(body) is None
    assert read_verdict(body) is None


WORDS = st.sampled_from(["", "20", "card 2 is lost", Message.of("NPU {} is {} (npu-smi)", 2, "Alarm")])


@given(
    st.builds(AttemptEnd, st.integers(0), WORDS, WORDS, WORDS, st.none() | st.floats(0, 1e9), st.booleans())
)
def test_report_survives_the_way_over_the_channel(end: AttemptEnd) -> None:
    read = read_end(json.loads(json.dumps(coded(end._asdict()))))
    assert read == end
    for name in ("final", "unhealthy"):
        assert in_both(getattr(read, name)) == in_both(getattr(end, name)), "also in Chinese"


@pytest.mark.parametrize(
    ("ends_of_nodes", "cause", "earlier", "chinese"),
    [
        (ends(unhealthy="card 2 is lost"), BAD, [], "硬件故障：需要新的 pod（节点 1：card 2 is lost）"),
        (ends(), KILL._replace(code=2), [], "配置错误（命令用法错误）："),
        (ends(seconds=3.0), BAD, [], "节点 1：在最初 10 s 内失败"),
        (
            ends(unhealthy=Message.of("the disk of {} is full", "/cache")),
            BAD,
            [],
            "硬件故障：需要新的 pod（节点 1：/cache 所在的磁盘已满）",
        ),
        (ends(), BAD, [failed(BAD)], "同一失败出现两次，其间没有更新的完整检查点"),
        (ends(), KILL, [failed(LOST), failed(OOM)], "作业的 2 次重启已用完"),
    ],
)
def test_reason_is_chinese_on_the_chinese_page(
    ends_of_nodes: dict[int, AttemptEnd], cause: Cause, earlier: Sequence[FailureSignature], chinese: str
) -> None:
    assert in_both(decide(1, ends_of_nodes, RestartPolicy(2, 10.0), cause, earlier).why).zh.startswith(
        chinese
    )
