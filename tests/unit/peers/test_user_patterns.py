"""Expressions of --retry-on and --no-retry-on: bounded, and before the built-in rules."""

from __future__ import annotations

import time

import pytest

from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, decide, failure_kind
from ma_boot.node.peers.user_patterns import (
    LONGEST_EXPRESSION,
    MOST_EXPRESSIONS,
    first_match,
    parse_expression,
)
from ma_boot.report.cause import Cause

SLOW = "(a+)+$"
ENDS = {0: AttemptEnd(1, seconds=60.0)}


def cause(words: str, text: str = "", code: int = 1) -> Cause:
    return Cause(0, 0, code, words, 1.0, place="train.py:12", text=text)


@pytest.mark.parametrize("text", ["", "(", "a" * (LONGEST_EXPRESSION + 1), "(?P<x>a)(?P<x"])
def test_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        parse_expression(text)


def test_expression_that_takes_too_long_matches_nothing() -> None:
    began = time.monotonic()
    assert first_match([SLOW, "b$"], "a" * 5000 + "b") == "b$"
    assert time.monotonic() - began < 20


def test_number_of_expressions_is_bounded() -> None:
    assert first_match(["x"] * MOST_EXPRESSIONS + ["b"], "b") is None


@pytest.mark.parametrize(
    ("words", "policy", "again", "rule"),
    [
        ("ImportError: no lease", RestartPolicy(3, 10.0, retry_on=("lease",)), True, "retry-on"),
        (
            "RuntimeError: uncorrectable ECC error",
            RestartPolicy(3, 10.0, retry_on=("ECC",)),
            True,
            "retry-on",
        ),
        ("ConnectionError: reset", RestartPolicy(3, 10.0, no_retry_on=("reset",)), False, "no-retry-on"),
        ("ValueError: x", RestartPolicy(3, 10.0, retry_on=("x",), no_retry_on=("x",)), False, "no-retry-on"),
        ("ValueError: x", RestartPolicy(0, 10.0, retry_on=("x",)), False, "budget"),
        ("ValueError: x", RestartPolicy(3, 90.0, retry_on=("x",)), True, "retry-on"),
        ("ValueError: x", RestartPolicy(3, 10.0, retry_on=("y",)), True, "unknown"),
    ],
)
def test_expressions_come_before_the_rules(words: str, policy: RestartPolicy, again: bool, rule: str) -> None:
    verdict = decide(1, ENDS, policy, cause(words), [])
    assert (verdict.again, verdict.rule) == (again, rule)


def test_whole_message_is_searched() -> None:
    failure = cause("RuntimeError: HCCL", text="RuntimeError: HCCL\nEI9999: lease expired")
    policy = RestartPolicy(no_retry_on=("lease expired",))
    assert decide(1, ENDS, policy, failure, []).why.startswith(
        "the failure matches --no-retry-on lease expired: node 0, rank 0: RuntimeError: HCCL"
    )


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ("ValueError: bad label", 1, "deterministic"),
        ("ConnectionError: reset", 1, "transient"),
        ("ModuleNotFoundError: No module named 'x'", 1, "configuration"),
        ("train.py: error: unrecognized arguments: -x", 2, "configuration"),
        ("ended with exit code 2", 2, "configuration"),
        ("RuntimeError: uncorrectable ECC error", 1, "hardware"),
    ],
)
def test_kind_of_a_failure_is_by_the_same_rules(words: str, code: int, kind: str) -> None:
    assert failure_kind(ENDS, cause(words, code=code), RestartPolicy()) == kind
    assert failure_kind(ENDS, cause(words), RestartPolicy(retry_on=(".",))) == "retry-on"
    assert failure_kind(ENDS, cause(words), RestartPolicy(no_retry_on=(".",))) == "no-retry-on"


def test_failure_without_a_cause_is_unknown_but_for_broken_hardware() -> None:
    assert failure_kind(ENDS, None, RestartPolicy()) == "unknown"
    broken = {1: AttemptEnd(1, unhealthy="NPU 3 is Alarm (npu-smi)")}
    assert failure_kind(broken, None, RestartPolicy()) == "hardware"
