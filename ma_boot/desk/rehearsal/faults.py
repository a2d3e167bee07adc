"""The grammar of `--fault`: `kill rank=3 at=5s` becomes a value, and `str` gives the text back. Pure.

FAULT  := KIND [KEY=VALUE]...          one fault; `--fault` may be given several times
kill, raise, hang                      a rank: rank=R, and when: at=TIME after its start, or line=K of its log
absent, lost, bad-card, rescheduled, restart    a node, or the job: node=N, and when: at=TIME, or phase=NAME
restart, rescheduled                   with times=N: after a failure of the job, N times at most
stop                                   SIGTERM as phase=NAME begins or at=TIME; SIGKILL after grace=TIME
table-late, table-lacks                the rank table, of all nodes or of node=N; for=TIME
obs-503, obs-expired, obs-slow, ...    responses of OBS: method=GET, key=TEXT (a substring), times=N
disk-full                              node=N, path=DIRECTORY holds only size=SIZE
TIME := 5s | 200ms | 2m                SIZE := 512k | 8m | 1g
"""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Callable, NamedTuple

from ma_boot.errors import UsageError, listed

PHASES = ("job", "environment", "inputs", "rank table", "launch", "run", "outputs")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}
_SIZES = {"g": 30, "m": 20, "k": 10, "": 0}


@dataclass(frozen=True)
class Fault:
    """One fault: `kind` says what happens, `rank`, `node` or `key` where, `at`, `line` or `phase` when.

    Times are in seconds: `at` counts from the start of the rank or node, `lasts` is None for a permanent
    fault, `grace` passes before SIGKILL. `size` is in bytes; `signal` is a name without SIG.
    """

    kind: str
    rank: int | None = None
    node: int | None = None
    pod: int | None = None
    at: float | None = None
    line: int | None = None
    phase: str | None = None
    lasts: float | None = None
    signal: str | None = None
    grace: float | None = None
    size: int | None = None
    path: str | None = None
    method: str | None = None
    key: str | None = None
    times: int | None = None

    @property
    def follows_failures(self) -> bool:
        """True if the platform starts the job again after it has failed, instead of an injection."""
        return self.kind in AFTER_FAILURES and self.times is not None

    @property
    def stage(self) -> str:
        """The part that it breaks: `rank`, `node`, `table`, `obs` or `disk`."""
        return KINDS[self.kind].stage

    def __str__(self) -> str:
        words = [self.kind]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value is not None:
                words.append(f"{_KEY_OF.get(field.name, field.name)}={_KEYS[field.name].show(value)}")
        return " ".join(words)


class Kind(NamedTuple):
    """A kind of fault: what it breaks, its description, the keys it requires and those it also takes."""

    stage: str
    meaning: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


class _Key(NamedTuple):
    """Reader (raises `ValueError`), printer and description of a key's value."""

    read: Callable[[str], Any]
    show: Callable[[Any], str]
    expected: str


_WHEN_RANK = ("at", "line")
_WHEN_NODE = ("at", "phase")
_OBS = ("method", "key", "times")
KINDS: dict[str, Kind] = {
    "kill": Kind("rank", "the rank dies of a signal", ("rank",), ("signal", *_WHEN_RANK)),
    "raise": Kind("rank", "the rank raises KeyboardInterrupt (SIGINT)", ("rank",), _WHEN_RANK),
    "hang": Kind("rank", "the rank stops running (SIGSTOP)", ("rank",), ("lasts", *_WHEN_RANK)),
    "absent": Kind("node", "the node never starts, so the rank table is never completed", ("node",)),
    "lost": Kind("node", "everything on the node is killed at once", ("node",), _WHEN_NODE),
    "bad-card": Kind(
        "node", "npu-smi shows a broken card, whose rank, the node's first one, dies", ("node",), ("at",)
    ),
    "rescheduled": Kind(
        "node", "the node is rebuilt elsewhere, the others restart; without node= all are rebuilt",
        (), ("node", "times", *_WHEN_NODE),
    ),
    "restart": Kind("node", "the boot command runs again in place", (), ("signal", "times", *_WHEN_NODE)),
    "stop": Kind("node", "SIGTERM, then SIGKILL after the grace period", (), ("node", "grace", *_WHEN_NODE)),
    "table-late": Kind("table", "the file does not exist before that", ("lasts",), ("node",)),
    "table-lacks": Kind("table", "completed, but lacks a pod", ("pod",), ("node", "lasts")),
    "obs-503": Kind("obs", "slow down", (), _OBS),
    "obs-expired": Kind("obs", "the credentials have expired", (), _OBS),
    "obs-slow": Kind("obs", "a few kilobytes a second", (), _OBS),
    "obs-hang": Kind("obs", "no response, as without a network", (), _OBS),
    "disk-full": Kind("disk", "a directory runs out of space", ("node", "path", "size")),
}  # fmt: skip


# Kinds with `times=`: the platform starts a job again that has failed by itself, as often at most.
AFTER_FAILURES = ("rescheduled", "restart")
# Reasons why faults of a kind or of a stage cannot be injected into containers.
NOT_IN_CONTAINERS = {
    "bad-card": "npu-smi is the image's own",
    "rescheduled": "each container starts once",
    "restart": "each container starts once",
    "obs": "the image's own program serves OBS",
    "disk": "bubblewrap makes the small disk, and a container does not have it",
}


def parse_faults(
    texts: Sequence[str], nodes: int, devices_per_node: int, in_containers: bool = False
) -> tuple[Fault, ...]:
    """Parses faults for a job of this shape; raises `UsageError` with every mistake in all of them."""
    faults: list[Fault] = []
    problems: list[str] = []
    for text in texts:
        fault, wrong = _parsed(text)
        if fault is not None:
            wrong = _misplaced(fault, nodes, devices_per_node)
            why = NOT_IN_CONTAINERS.get(fault.kind) or NOT_IN_CONTAINERS.get(fault.stage)
            wrong += [f"expected without --runner docker: {why}"] if in_containers and why else []
            faults.append(fault)
        problems += [f"--fault {text!r}: {problem}" for problem in wrong]
    problems += _clashes(faults, nodes)
    if problems:
        raise UsageError(listed("invalid faults:", problems))
    return tuple(faults)


def _parsed(text: str) -> tuple[Fault | None, list[str]]:
    """The fault, or None and its mistakes."""
    kind, *pairs = text.split() or [""]
    if kind not in KINDS:
        return None, [f"found {kind!r}, expected one of {', '.join(KINDS)}"]
    allowed = (*KINDS[kind].needs, *KINDS[kind].takes)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for pair in pairs:
        word, equals, written = pair.partition("=")
        name = _NAME_OF.get(word, word)
        if not equals or name not in allowed or name in values:
            expected = f"found {pair!r}, expected {_allowed(allowed)}"
            problems.append(f"{word}=: duplicate key, expected once" if name in values else expected)
            continue
        try:
            values[name] = _KEYS[name].read(written)
        except ValueError:
            values[name] = None
            problems.append(f"{word}={written}: expected {_KEYS[name].expected}")
    missing = [name for name in KINDS[kind].needs if name not in values]
    problems += [
        f"{_KEY_OF.get(name, name)}= is missing: expected {_KEYS[name].expected}" for name in missing
    ]
    if kind in AFTER_FAILURES and "times" in values and {"at", "phase", "signal"} & values.keys():
        problems.append("expected times= alone: the job fails by itself, so nothing is injected")
    if sum(name in values for name in ("at", "line", "phase")) > 1:
        problems.append("expected only one of at=, line=, phase=")
    return (None if problems else Fault(kind, **values)), problems


def _clashes(faults: Sequence[Fault], nodes: int) -> list[str]:
    """Faults that exclude each other: duplicates, and two of the same rank table."""
    texts = [str(fault) for fault in faults]
    problems = [f"--fault {text!r}: expected once" for text in sorted(set(texts)) if texts.count(text) > 1]
    absent = {fault.node for fault in faults if fault.kind == "absent"}
    if len(absent) == nodes:
        problems.append(f"--fault 'absent': expected fewer than the job's {nodes} nodes: none would start")
    tables = [fault for fault in dict.fromkeys(faults) if fault.stage == "table" or fault.kind == "absent"]
    for a, b in itertools.combinations(tables, 2):
        of_absent = (a.kind, b.kind).count("absent")  # which leaves the tables of all nodes incomplete
        same_table = None in (a.node, b.node) or a.node == b.node
        if of_absent == 1 or (of_absent == 0 and same_table):
            problems.append(f"--fault '{a}', --fault '{b}': expected at most one fault per rank table")
    return problems


def _allowed(names: Sequence[str]) -> str:
    return ", ".join(f"{_KEY_OF.get(name, name)}=" for name in names) or "no keys"


def _misplaced(fault: Fault, nodes: int, devices_per_node: int) -> list[str]:
    """Ranks and nodes outside the job."""
    ends = {"rank": nodes * devices_per_node, "node": nodes, "pod": nodes}
    return [
        f"{name}={getattr(fault, name)}: expected 0 to {end - 1}: the job has {nodes} nodes "
        f"x {devices_per_node} devices"
        for name, end in ends.items()
        if getattr(fault, name) is not None and getattr(fault, name) >= end
    ]


def _number(lowest: int, highest: int) -> _Key:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
            raise ValueError(text)
        return int(text)

    return _Key(read, str, f"a whole number from {lowest}" + (f" to {highest}" if highest < 10**9 else ""))


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|)", text, re.ASCII)
    if match is None:
        raise ValueError(text)
    return round(float(match.group(1)) * _UNITS[match.group(2)], 3)


def _show_seconds(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([1-9]\d{0,9})([kmg]?)", text.lower(), re.ASCII)
    if match is None:
        raise ValueError(text)
    return int(match.group(1)) << _SIZES[match.group(2)]


def _show_bytes(value: int) -> str:
    return next(f"{value >> bits}{unit}" for unit, bits in _SIZES.items() if not value & ((1 << bits) - 1))


def _signal(text: str) -> str:
    name = text.upper()
    name = name[3:] if name.startswith("SIG") else name
    if f"SIG{name}" not in signal.Signals.__members__:
        raise ValueError(text)
    return name


def _phase(text: str) -> str:
    if text.replace("-", " ") not in PHASES:
        raise ValueError(text)
    return text.replace("-", " ")


def _matching(pattern: str, expected: str) -> _Key:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return _Key(read, str, expected)


def _directory(text: str) -> str:
    """Reads the directory of a small disk: neither within code or rank table, nor above them."""
    needed = ("/home/ma-user/modelarts/user-job-dir", "/user/config")
    plain = re.fullmatch(r"(/[^/\s]+)+", text) and not {".", ".."} & set(text.split("/"))
    near = any(f"{place}/".startswith(f"{text}/") or text.startswith(f"{place}/") for place in needed)
    if not plain or near:
        raise ValueError(text)
    return text


_NUMBER = _number(0, 10**9)
_SPAN = _Key(_seconds, _show_seconds, "a time such as 5s, 200ms or 2m")
_KEYS: dict[str, _Key] = {
    "rank": _NUMBER,
    "node": _NUMBER,
    "pod": _NUMBER,
    "at": _SPAN,
    "line": _number(1, 10**9),
    "phase": _Key(_phase, lambda name: str(name).replace(" ", "-"), f"one of {', '.join(PHASES)}"
                  " (with - for the space)"),
    "lasts": _SPAN,
    "signal": _Key(_signal, str, "the name of a signal, such as KILL, SEGV or TERM"),
    "grace": _SPAN,
    "size": _Key(_bytes, _show_bytes, "a size such as 512k, 8m or 1g"),
    "path": _Key(_directory, str, "a directory of the platform that may be empty, such as /cache"),
    "method": _matching("GET|PUT|POST|HEAD|DELETE", "GET, PUT, POST, HEAD or DELETE"),
    "key": _matching(r"\S+", "a substring of the object's key"),
    "times": _number(1, 10**9),
}  # fmt: skip
_KEY_OF = {"lasts": "for"}
_NAME_OF = {"for": "lasts"}
