"""Restarts of a job in place: every node stops its ranks, node 0 decides once by one table of rules.

Nobody starts attempt n + 1 before everybody has stopped attempt n. What cannot be agreed within the deadline
ends the job on every node, with the code of its cause: then the platform has to act. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple

from ma_boot.report.cause import LOST_PEER, Cause, readable
from ma_boot.wording import Message, text_in


class AttemptEnd(NamedTuple):
    """What a node says when all its processes of an attempt are dead.

    `final` is why its processes cannot start again, `unhealthy` what is wrong with the node itself, both
    empty if nothing is known; `whole` the newest step that is known to count in OBS, empty if there is none.
    `seconds` is how long its first failure took, None if nothing failed there; `stepped` is whether one of
    its ranks has printed a step.
    """

    attempt: int
    final: str = ""
    whole: str = ""
    unhealthy: str = ""
    seconds: float | None = None
    stepped: bool = False


class Verdict(NamedTuple):
    """What node 0 decides after an attempt: whether all start again, why, and by which rule."""

    attempt: int
    again: bool
    why: str
    rule: str = ""


class Failed(NamedTuple):
    """What an attempt ended by: the cause without what differs each time, and the newest set at that time."""

    words: str
    place: str
    whole: str


class RestartPolicy(NamedTuple):
    """How often a job may start again, and how long it runs before a failure may be worth it, in seconds."""

    budget: int = 0
    start_seconds: float = 0.0


class Evidence(NamedTuple):
    """What is known when an attempt has ended: what the nodes say, and what the attempts before ended by."""

    ends: Mapping[int, AttemptEnd]
    cause: Cause | None
    earlier: Sequence[Failed]
    policy: RestartPolicy

    @property
    def words(self) -> str:
        """The words of the cause; empty without one."""
        return self.cause.words if self.cause is not None else ""


def decide(
    attempt: int,
    ends: Mapping[int, AttemptEnd],
    policy: RestartPolicy,
    cause: Cause | None,
    earlier: Sequence[Failed],
) -> Verdict:
    """Whether a job starts again after an attempt, by the first rule that holds. Pure.

    `ends` is what each node says, `earlier` what the attempts before ended by. What no rule knows is tried
    again, and uses the budget up.
    """
    evidence = Evidence(ends, cause, earlier, policy)
    for rule, reason in RULES:
        why = reason(evidence)
        if why:
            return Verdict(attempt, False, why, rule)
    rule = "transient" if _passes(cause) else "unknown"
    return Verdict(attempt, True, str(cause) if cause is not None else Message.of("the ranks hung"), rule)


def failure_of(ends: Mapping[int, AttemptEnd], cause: Cause | None) -> Failed:
    """What an attempt ended by."""
    whole = max((end.whole for end in ends.values()), key=_by_number, default="")
    return (
        Failed("", "", whole) if cause is None else Failed(_same_each_time(cause.words), cause.place, whole)
    )


def _broken_node(evidence: Evidence) -> str:
    ends = sorted(evidence.ends.items())
    broken: list[str] = [
        Message.of("node {}: {}", node, end.unhealthy) for node, end in ends if end.unhealthy
    ]
    if not broken and re.search(_HARDWARE, evidence.words):
        broken = [str(evidence.cause)]
    gaps = "; ".join(["{}"] * len(broken))
    return Message.of("hardware: needs new pods ({})", Message.of(gaps, *broken)) if broken else ""


def _stuck_processes(evidence: Evidence) -> str:
    ends = sorted(evidence.ends.items())
    return next((Message.of("node {}: {}", node, end.final) for node, end in ends if end.final), "")


def _configuration(evidence: Evidence) -> str:
    cause, ends = evidence.cause, evidence.ends.values()
    if cause is None:
        return ""
    meaning: str = CONFIGURATION_CODES.get(cause.code, "")
    if not meaning and re.match(_CONFIGURATION, cause.words):
        meaning = Message("it fails in the same way again")
    begun = any(end.stepped or end.whole for end in ends)
    if not meaning and not begun and re.search(_MISSING_FILE, cause.words):
        meaning = Message("a file is missing before the first step")
    return Message.of("a configuration error ({}): {}", meaning, str(cause)) if meaning else ""


def _too_short(evidence: Evidence) -> str:
    times = [(end.seconds, node) for node, end in evidence.ends.items() if end.seconds is not None]
    seconds, node = min(times, default=(evidence.policy.start_seconds, 0))
    if seconds >= evidence.policy.start_seconds:
        return ""
    first = f"{evidence.policy.start_seconds:.0f}"
    return Message.of("node {}: it failed within its first {} s (MABOOT_START_SECONDS)", node, first)


def _repeated(evidence: Evidence) -> str:
    """The same cause without a newer set: an exception once more is enough, anything else twice more."""
    failed = failure_of(evidence.ends, evidence.cause)
    before = evidence.earlier.count(failed)
    if before < (1 if _would_repeat(evidence.cause) else 2):
        return ""
    times = Message("twice") if before == 1 else Message.of("{} times", before + 1)
    if failed.whole:
        return Message.of("the same failure came {} without a newer whole checkpoint", times)
    return Message.of("the same failure came {} without a checkpoint", times)


def _used_up(evidence: Evidence) -> str:
    budget = evidence.policy.budget
    if len(evidence.earlier) < budget:
        return ""
    if budget == 1:
        return Message("the job's 1 restart is used up")
    return Message.of("the job's {} restarts are used up", budget)


# The table of rules against a restart, in their order.
RULES: tuple[tuple[str, Callable[[Evidence], str]], ...] = (
    ("hardware", _broken_node),
    ("processes", _stuck_processes),
    ("configuration", _configuration),
    ("start-up", _too_short),
    ("repeated", _repeated),
    ("budget", _used_up),
)
CONFIGURATION_CODES = {
    2: Message("wrong use of the command"),
    64: Message("wrong use of the command"),
    126: Message("a command that is not executable"),
    127: Message("a command that does not exist"),
}
_CONFIGURATION = (
    r"(ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)\b|.*\bEI00(04|14|17)\b"
)
_MISSING_FILE = r"\bFileNotFoundError\b|No such file or directory|\bdoes not exist\b"
# Of CUDA, of torch_npu and CANN (507053, 507054), of any disk.
_HARDWARE = (
    r"(?i)uncorrectable (NVLink|ECC)|multi.?bit ecc|\b50705[34]\b|\bUCE ERROR|fallen off the bus"
    r"|device is lost|No space left on device|\[Errno 28\]"
)
# Of networks, object stores and shared file systems, and what a process holds for a moment.
_TRANSIENT = (
    r"(?i)(?<!With)time(d |-)?out|temporar|try again|unreachable|connection|broken pipe"
    r"|name resolution|Name or service not known"
    r"|\b(HTTP|status|code|error)\W{1,3}(429|50[0234])\b|SlowDown|Service ?Unavailable|TooManyRequests"
    r"|InternalError|stale file handle|input/output error|EJ0001|\bEI00(06|13)\b|link (down|error)"
    r"|address already in use"
)
_SAYS_NOTHING = (
    r"(\w+\.)*(ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException)\b"
)
_DIFFERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.:]\d+)+|\d{4,}")  # addresses, times, sizes, process ids


def _passes(cause: Cause | None) -> bool:
    """Whether a failure is one that often goes away by itself."""
    return cause is not None and (cause.evidence == LOST_PEER or bool(re.search(_TRANSIENT, cause.words)))


def _would_repeat(cause: Cause | None) -> bool:
    """Whether a failure that comes once more comes for ever: an exception of the training, or no memory."""
    if cause is None or _passes(cause) or re.match(_SAYS_NOTHING, cause.words):
        return False
    return bool(cause.place) or cause.words.startswith("out of memory")


def _same_each_time(words: str) -> str:
    return _DIFFERS.sub("#", words)


def _by_number(whole: str) -> list[tuple[bool, int | str]]:
    """The order of steps: 100 comes after 20."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else part) for part in re.split(r"(\d+)", whole)]


def read_end(body: Mapping[str, object]) -> AttemptEnd | None:
    """What another node says; None if it is not as `AttemptEnd` has it."""
    attempt, seconds, stepped = body.get("attempt"), body.get("seconds"), body.get("stepped")
    texts = ("final", "whole", "unhealthy")
    if not isinstance(attempt, int) or not isinstance(stepped, bool):
        return None
    if not all(isinstance(body.get(name), str) for name in texts):
        return None
    if seconds is not None and not isinstance(seconds, float):
        return None
    final, whole, unhealthy = (text_in(body, name, readable) for name in texts)
    return AttemptEnd(attempt, final, whole, unhealthy, seconds, stepped)


def read_verdict(body: Mapping[str, object]) -> Verdict | None:
    """What node 0 has decided; None if it is not as `Verdict` has it."""
    attempt, again, why, rule = (body.get(name) for name in Verdict._fields)
    if (
        isinstance(attempt, int)
        and isinstance(again, bool)
        and isinstance(why, str)
        and isinstance(rule, str)
    ):
        return Verdict(attempt, again, text_in(body, "why", readable), readable(rule))
    return None
