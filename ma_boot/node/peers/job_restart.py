"""Restarts of a job in place: the rules by which node 0 decides, once after each attempt. Pure.

Attempt n + 1 begins on no node before attempt n has been stopped on all. Without an agreement in time the job
ends on every node with the code of its root cause, and the platform has to act.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple

from ma_boot.report.cause import LONGEST_WORDS, LOST_PEER, Cause, readable
from ma_boot.wording import Message, text_in


class AttemptEnd(NamedTuple):
    """Report of a node after the death of all its processes of an attempt.

    `final` is the reason that its processes cannot start again, `unhealthy` a defect of the node itself, both
    empty if there is none; `whole` the newest step that is known to be complete in OBS, empty if there is
    none. `seconds` is the time to its first failure, None if nothing failed there; `stepped` is true if one
    of its ranks has printed a step.
    """

    attempt: int
    final: str = ""
    whole: str = ""
    unhealthy: str = ""
    seconds: float | None = None
    stepped: bool = False


class Verdict(NamedTuple):
    """Node 0's decision after an attempt: whether all nodes run `again`, the reason and the rule."""

    attempt: int
    again: bool
    why: str
    rule: str = ""


class FailureSignature(NamedTuple):
    """Signature of a failed attempt, equal if the same failure comes again with no newer complete checkpoint.

    `words` and `place` are those of the cause, without parts that differ each time.
    """

    words: str
    place: str
    whole: str


class RestartPolicy(NamedTuple):
    """Limits of restarts: their number, and the seconds before which a failure is not worth one.

    `retry_on` and `no_retry_on` are the user's expressions for failures that are, or are not, worth one.
    """

    budget: int = 0
    start_seconds: float = 0.0
    retry_on: tuple[str, ...] = ()
    no_retry_on: tuple[str, ...] = ()


class Evidence(NamedTuple):
    """Evidence for a verdict: the reports of all nodes, the root cause, and the attempts before."""

    ends: Mapping[int, AttemptEnd]
    cause: Cause | None
    earlier: Sequence[FailureSignature]
    policy: RestartPolicy

    @property
    def text(self) -> str:
        """The whole message of the cause; empty without one."""
        return _whole_message(self.cause) if self.cause is not None else ""


def decide(
    attempt: int,
    ends: Mapping[int, AttemptEnd],
    policy: RestartPolicy,
    cause: Cause | None,
    earlier: Sequence[FailureSignature],
) -> Verdict:
    """Returns the verdict by the first rule that holds.

    `ends` are the reports by node, `earlier` the failures of the attempts before. A failure that matches no
    rule is worth a restart, and uses up the budget.
    """
    evidence = Evidence(ends, cause, earlier, policy)
    is_wanted = _first_match(policy.retry_on, evidence.text) is not None
    for rule, reason in RULES:
        why = reason(evidence) if rule in _ABOVE_THE_USER or not is_wanted else ""
        if why:
            return Verdict(attempt, False, why, rule)
    rule = RETRY_ON if is_wanted else "transient" if _is_transient(cause) else "unknown"
    return Verdict(attempt, True, str(cause) if cause is not None else Message.of("the ranks hung"), rule)


def signature_of(ends: Mapping[int, AttemptEnd], cause: Cause | None) -> FailureSignature:
    """Returns the signature of a failed attempt."""
    whole = max((end.whole for end in ends.values()), key=_natural_order, default="")
    if cause is None:
        return FailureSignature("", "", whole)
    return FailureSignature(common_words(cause.words), cause.place, whole)


def common_words(words: str) -> str:
    """Returns the words of a cause without the parts that differ each time."""
    # The words may be cut in the middle of a number.
    words = words.rstrip("0123456789.:") if len(words) == LONGEST_WORDS else words
    return _VARYING.sub(lambda match: match["code"] or "#", words)


def exact_words(words: str) -> str:
    """Returns the words of a cause without addresses, times, sizes, ports and process ids.

    All other numbers stay: a step, a sample, a shard or a value that differs is another failure.
    """
    words = words.rstrip("0123456789.:") if len(words) == LONGEST_WORDS else words
    return _OF_THE_ATTEMPT.sub(lambda match: f"{match['name'] or match['host'] or ''}#", words)


def failure_kind(ends: Mapping[int, AttemptEnd], cause: Cause | None, policy: RestartPolicy) -> str:
    """Returns the kind of a failure, which decides whether a later start of the job is worth its price."""
    evidence = Evidence(ends, cause, (), policy)
    if _excluded_by_user(evidence):
        return NO_RETRY_ON
    if _first_match(policy.retry_on, evidence.text) is not None:
        return RETRY_ON
    if _broken_node(evidence):
        return HARDWARE
    if _configuration(evidence) and not _is_other_use_of_2(evidence):
        return CONFIGURATION
    if _is_transient(cause):
        return "transient"
    is_certain = _is_deterministic(cause) and not re.search(_FROM_OUTSIDE, evidence.text)
    return DETERMINISTIC if is_certain else "unknown"


def _first_match(expressions: Sequence[str], text: str) -> str | None:
    """See `first_match`, whose module most jobs do not need."""
    if not expressions:
        return None
    from ma_boot.node.peers.user_patterns import first_match

    return first_match(expressions, text)


def _excluded_by_user(evidence: Evidence) -> str:
    expression = _first_match(evidence.policy.no_retry_on, evidence.text)
    if expression is None:
        return ""
    return Message.of("the failure matches --no-retry-on {}: {}", expression, str(evidence.cause))


def _broken_node(evidence: Evidence) -> str:
    ends = sorted(evidence.ends.items())
    broken: list[str] = [
        Message.of("node {}: {}", node, end.unhealthy) for node, end in ends if end.unhealthy
    ]
    if not broken and re.search(_HARDWARE, evidence.text):
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
    # A library on a shared file system, or of the server's driver, may be there the next time.
    is_import = re.match(_CONFIGURATION, cause.words) and not re.search(
        f"{_TRANSIENT}|{_DRIVER_LIBRARY}", cause.words
    )
    is_known = is_import or re.search(_CONFIGURATION_OF_COLLECTIVES, evidence.text)
    if not meaning and is_known:
        meaning = Message("it fails in the same way again")
    # After the first step a missing file may be a shard on a shared file system, which comes back.
    begun = any(end.stepped or end.whole for end in ends)
    if not meaning and not begun and re.search(_MISSING_FILE, cause.words):
        meaning = Message("a file is missing before the first step")
    return Message.of("a configuration error ({}): {}", meaning, str(cause)) if meaning else ""


def _is_other_use_of_2(evidence: Evidence) -> bool:
    """Returns whether exit code 2 is no wrong use: tar and others end with it after any error."""
    cause = evidence.cause
    if cause is None or cause.code != 2 or re.search(_WRONG_USE, cause.words):
        return False
    return _is_transient(cause) or re.search(_FROM_OUTSIDE, evidence.text) is not None


def _too_short(evidence: Evidence) -> str:
    times = [(end.seconds, node) for node, end in evidence.ends.items() if end.seconds is not None]
    seconds, node = min(times, default=(evidence.policy.start_seconds, 0))
    if seconds >= evidence.policy.start_seconds:
        return ""
    first = f"{evidence.policy.start_seconds:.0f}"
    return Message.of("node {}: it failed within its first {} s (MABOOT_START_SECONDS)", node, first)


def _repeated(evidence: Evidence) -> str:
    """The same failure with no newer complete checkpoint.

    An exception of the training is deterministic, so its second time is enough; anything else may come three
    times.
    """
    signature = signature_of(evidence.ends, evidence.cause)
    before = evidence.earlier.count(signature)
    if before < (1 if _is_deterministic(evidence.cause) else 2):
        return ""
    times = Message("twice") if before == 1 else Message.of("{} times", before + 1)
    if signature.whole:
        return Message.of("same failure {} with no newer complete checkpoint", times)
    return Message.of("same failure {} without a checkpoint", times)


def _used_up(evidence: Evidence) -> str:
    budget = evidence.policy.budget
    if len(evidence.earlier) < budget:
        return ""
    if budget == 1:
        return Message("the job's 1 restart is used up")
    return Message.of("the job's {} restarts are used up", budget)


HARDWARE, CONFIGURATION, DETERMINISTIC = "hardware", "configuration", "deterministic"
RETRY_ON, NO_RETRY_ON = "retry-on", "no-retry-on"
# Rules against a restart; the first one that returns a reason decides.
RULES: tuple[tuple[str, Callable[[Evidence], str]], ...] = (
    (NO_RETRY_ON, _excluded_by_user),
    (HARDWARE, _broken_node),
    ("processes", _stuck_processes),
    (CONFIGURATION, _configuration),
    ("start-up", _too_short),
    ("repeated", _repeated),
    ("budget", _used_up),
)
# Rules that hold for a failure of --retry-on, too: no restart is possible, or allowed.
_ABOVE_THE_USER = (NO_RETRY_ON, "processes", "budget")
CONFIGURATION_CODES = {
    2: Message("wrong use of the command"),
    64: Message("wrong use of the command"),
    126: Message("a command that is not executable"),
    127: Message("a command that does not exist"),
}
# Of argparse and of shells.
_WRONG_USE = r": error: |\bsyntax error\b"
_CONFIGURATION = r"(ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)\b"
# Of HCCL: values of variables, and the rank table; of NCCL: several ranks on one card.
_CONFIGURATION_OF_COLLECTIVES = r"\bEI00(01|04|14|17)\b|Duplicate GPU detected"
_MISSING_FILE = r"\bFileNotFoundError\b|No such file or directory|\bdoes not exist\b"
# Errors of CUDA, of torch_npu and CANN (507053, 507054), and of any disk.
_HARDWARE = (
    r"(?i)uncorrectable (NVLink|ECC)|multi.?bit ecc|\b50705[34]\b|\bUCE ERROR|fallen off the bus"
    r"|device is lost|No space left on device|\[Errno 28\]"
)
# Errors of networks, object stores and shared file systems, and of ports that are still in use.
_TRANSIENT = (
    r"(?i:(?<!With)time(d |-)?out|temporar|try again|unreachable|connection|not connected|broken pipe"
    r"|(could ?n.t|could not|failed to|cannot|unable to) connect|no route to host|host is down"
    r"|name resolution|Name or service not known|network (error|is down|port is down)"
    r"|\b(HTTP|status|code|error)\W{1,3}(429|50[0234])\b|\b(429|50[0234]) (Client|Server) Error"
    r"|SlowDown|Service ?Unavailable|Too ?Many ?Requests|InternalError|Internal Server Error|Bad Gateway"
    r"|IncompleteRead|EOF occurred in violation|Expired ?Token|RequestTimeTooSkewed"
    r"|stale file handle|(input/output|remote I/O) error|link (down|error)|No locks available"
    r"|transport endpoint|Device or resource busy|Interrupted system call"
    r"|address already in use|EADDRINUSE|\bport\b.{0,40}\b(in use|occupied|already been bound))"
)
# The same of HCCL, anywhere in a message; a port in use is EJ0003, EI0019 or EI0020.
_TRANSIENT_OF_HCCL = r"\bEJ000[13]\b|\bEI00(06|13|19|20)\b"
# Libraries of the driver, which the container has from its server.
_DRIVER_LIBRARY = r"\b(libascend_hal|libcuda|libnvidia-\w+|libnvcuvid)\.so"
# Failures that another start may not have, though they are exceptions of the training: errors of a card, of
# its driver and its runtime, which often belong to an earlier operation; of a process that another one has
# ended; and of memory, quotas and files that other jobs share.
_FROM_OUTSIDE = (
    r"CUDA (unknown )?error(?!: (device-side assert|no kernel image|invalid (argument|config|device ordinal)"
    r"|operation not|CUBLAS_STATUS_(INVALID_VALUE|NOT_SUPPORTED|ARCH_MISMATCH)))"
    r"|\bCU(DNN|BLAS|SOLVER|SPARSE)_STATUS_(NOT_INITIALIZED|ALLOC_FAILED|EXECUTION_FAILED|INTERNAL_ERROR)"
    r"|ncclUnhandledCudaError|ncclInternalError|\bNCCL WARN\b|No CUDA GPUs|no NVIDIA driver|CUDA driver init"
    r"|Process \d+ has .{1,40} in use\..{0,60}this process has|libcuda\.so cannot found"
    r"|(?i:error code|ret(code)?)\b\W{1,3}(is\W{1,2})?(5\d{5}|107020|207(?!001)\d{3})\b"
    r"|HCCL function error\b[^\n]*error code is ([4789]|1\d|2[0-3])\b"
    r"|(?s:call hccl api failed(?!.*\bEI000[35]\b))"
    r"|\b(EJ0002|EI0007|EI0009|EI0010|EI0012|EI0015)\b|SUSPECT REMOTE|FORCE STOP|Inner [Ee]rror"
    r"|core execution is abnormal|device is used|no NPU is available|open device failed"
    r"|Launch kernel failed|Execute graph failed|model execute failed|slow data processing"
    r"|main process disappeared"
    rf"|{_DRIVER_LIBRARY}"
    r"|DataLoader worker .{0,40}(killed by signal|exited unexpectedly)|process pool was terminated abruptly"
    r"|\b(ActorDied|ActorUnavailable|WorkerCrashed|NodeDied|RayActor)Error|node running low on memory"
    r"|Engine core initialization failed|RendezvousClosed|exitcode\W{1,4}-\d|terminated with signal"
    r"|\bKeyboardInterrupt\b|(?m:\bEOFError$|^(_?queue\.)?(Empty|Full)$)"
    r"|\[Errno (4|5|6|11|12|16|19|23|37|61|70|107|108|116|117|121|122)\]|quota exceeded"
    r"|start new thread|failed writing file|file write failed|unexpected pos \d+ vs"
)
# Errors of a launcher that only pass on the failure of a process, and a signal with the stack where it came.
_WITHOUT_CONTENT = (
    r"(\w+\.)*(ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException)\b"
    r"|Fatal Python error: "
)
# Codes of errors: of CANN (EI0006), of its runtime (507015) and of others.
_CODE = r"(?P<code>\b[A-Z]{1,3}\d{4,6}\b|\b(?i:(?:ret|error ?)?code|ret)\b\W{0,3}(?:is\W{1,2})?\d+\b)"
# Addresses, times, sizes and process ids, which differ between two attempts with the same failure.
_VARYING = re.compile(rf"{_CODE}|0x[0-9a-fA-F]+|\d+(?:[.:]\d+)+|\d{{4,}}")
# The same only where the words show that a number is one of these.
_OF_THE_ATTEMPT = re.compile(
    r"0x[0-9a-fA-F]+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|\b\d{4}-\d\d-\d\d\b"
    r"|(?P<host>\b(?:localhost|[\w-]*[-.][\w.-]*):)\d{4,5}\b"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)*\b|\b\d+(?:\.\d+)? ?(?:[KMGT]i?B|bytes|m?s|seconds)\b"
    r"|(?P<name>(?i:\b(?:pids?|process|ports?|tid|thread)\b(?:\(s\))?\W{0,3}))\d+\b"
)


def _is_transient(cause: Cause | None) -> bool:
    """Returns whether a failure often disappears by itself."""
    if cause is None:
        return False
    is_known = re.search(_TRANSIENT, cause.words) or re.search(_TRANSIENT_OF_HCCL, _whole_message(cause))
    return cause.evidence == LOST_PEER or bool(is_known)


def _whole_message(cause: Cause) -> str:
    """Returns the words of a cause, and below them the whole message.

    HCCL's code and the reason stand in its later lines; a masked or a collapsed text may stand in the words
    alone.
    """
    return f"{cause.words}\n{cause.text}"


def _is_deterministic(cause: Cause | None) -> bool:
    """Returns whether a failure comes at each attempt: an exception of the training, or no memory."""
    if cause is None or _is_transient(cause) or re.match(_WITHOUT_CONTENT, cause.words):
        return False
    return bool(cause.place) or cause.words.startswith("out of memory")


def _natural_order(steps: str) -> list[tuple[bool, int | str]]:
    """Sort key of steps by their numbers: 100 comes after 20."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else part) for part in re.split(r"(\d+)", steps)]


def read_end(body: Mapping[str, object]) -> AttemptEnd | None:
    """Returns another node's report in a message; None if it is invalid."""
    attempt, seconds, stepped = body.get("attempt"), body.get("seconds"), body.get("stepped")
    texts = ("final", "whole", "unhealthy")
    if not isinstance(attempt, int) or not isinstance(stepped, bool):
        return None
    if not all(isinstance(body.get(name), str) for name in texts):
        return None
    if seconds is not None and not isinstance(seconds, float):
        return None
    final, whole, unhealthy = (text_in(body, name, readable) for name in texts)
    return AttemptEnd(attempt, final, whole, unhealthy=unhealthy, seconds=seconds, stepped=stepped)


def read_verdict(body: Mapping[str, object]) -> Verdict | None:
    """Returns node 0's decision in a message; None if it is invalid."""
    attempt, again, why, rule = (body.get(name) for name in Verdict._fields)
    if (
        isinstance(attempt, int)
        and isinstance(again, bool)
        and isinstance(why, str)
        and isinstance(rule, str)
    ):
        return Verdict(attempt, again, text_in(body, "why", readable), readable(rule))
    return None
