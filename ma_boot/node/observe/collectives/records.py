"""Records that a rank has of its collectives: decoding of PyTorch's flight recorder. Pure.

The keys are those of `FlightRecorder.hpp` (versions 2.x of the dump), of which torch_npu's are a copy. A dump
may be torn or made by other code, so whatever does not fit is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MOST_ENTRIES = 20_000  # of a dump
MOST_GROUPS = 64  # of a rank
MOST_MEMBERS = 512  # of a group; those of a larger one are left out
LONGEST_NAME = 60  # characters of a group, an operation or a place
LONGEST_SHAPE = 120  # characters
MOST_NUMBER = 1 << 62
_LIBRARIES = re.compile(r"(^|/)(torch|torch_npu|site-packages|dist-packages)/")
# Their sizes are those of all ranks; other collectives may be uneven, or have an input on one rank only.
EVEN = ("all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base")

# Several operations that are launched together.
COALESCED = "coalesced"


class Collective(NamedTuple):
    """A collective as one rank has entered it: `seq` counts those of its group, `shape` is sizes and types.

    `shape` is empty where ranks may differ in it; `place` is the training's line, empty if not recorded.
    """

    seq: int
    op: str
    shape: str = ""
    is_done: bool = False
    place: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.seq}"


class GroupRecord(NamedTuple):
    """The collectives of one rank in one process group.

    `members` are the group's ranks, empty if unknown. `latest` has the first collective that is not done, the
    one before it, and the last one, by `seq`.
    """

    name: str
    label: str
    members: tuple[int, ...] = ()
    latest: tuple[Collective, ...] = ()

    @property
    def entered(self) -> int:
        """The number of collectives that the rank has entered."""
        return self.latest[-1].seq if self.latest else 0

    @property
    def pending(self) -> Collective | None:
        """The first collective that is not done."""
        return next((collective for collective in self.latest if not collective.is_done), None)

    def at(self, seq: int) -> Collective | None:
        """Returns the collective with this number, if it is among the latest."""
        return next((collective for collective in self.latest if collective.seq == seq), None)


class RankRecord(NamedTuple):
    """The process groups of one rank; `is_cut` if the recorder has dropped its oldest entries.

    `awaits_message` is true if a message to or from another rank is not done.
    """

    groups: tuple[GroupRecord, ...] = ()
    is_cut: bool = False
    awaits_message: bool = False


def with_place(record: RankRecord, place: str) -> RankRecord:
    """Adds the training's line, by its stack, to the only collective that is not done and has none."""
    waiting = [group for group in record.groups if group.pending is not None]
    if len(waiting) != 1 or (pending := waiting[0].pending) is None or pending.place:
        return record
    there = pending._replace(place=_name(place))
    latest = tuple(there if found is pending else found for found in waiting[0].latest)
    groups = (group._replace(latest=latest) if group is waiting[0] else group for group in record.groups)
    return record._replace(groups=tuple(groups))


def decode_dump(dump: object, members: object = None) -> RankRecord | None:
    """Decodes a dump, and the members of gloo's groups by name; None if it is no dump."""
    if not isinstance(dump, Mapping) or not isinstance(dump.get("entries"), (list, tuple)):
        return None
    entries = [entry for entry in dump["entries"][-MOST_ENTRIES:] if isinstance(entry, Mapping)]
    completed = _completed(dump.get("pg_status"))
    known = {**_configured(dump.get("pg_config")), **_members(members)}
    groups: dict[str, dict[int, list[Collective]]] = {name: {} for name in known}
    labels: dict[str, str] = {}
    messages = [entry for entry in entries if entry.get("is_p2p")]
    for entry in entries:
        names, seq = entry.get("process_group"), _number(entry.get("collective_seq_id"))
        if not isinstance(names, (list, tuple)) or len(names) != 2 or entry.get("is_p2p") or not seq:
            continue
        name, label = _name(names[0]), _name(names[1])
        labels[name] = label if label and label != "undefined" else name
        done = seq <= completed.get(str(entry.get("pg_id")), 0)
        groups.setdefault(name, {}).setdefault(seq, []).append(_collective(entry, seq, done))
    records = (
        GroupRecord(name, labels.get(name, name), known.get(name, ()), _latest(by_seq))
        for name, by_seq in list(groups.items())[-MOST_GROUPS:]
        if name
    )
    first = min((_number(entry.get("record_id")) or 0 for entry in entries), default=0)
    is_cut = first > 0 or len(dump["entries"]) > MOST_ENTRIES
    return RankRecord(tuple(records), is_cut, not all(map(_has_ended, messages)))


def _collective(entry: Mapping[Any, Any], seq: int, is_done: bool) -> Collective:
    op, shape = _name(entry.get("profiling_name")).rpartition(":")[2], ""
    if op in EVEN:
        sizes, types = entry.get("input_sizes"), entry.get("input_dtypes")
        shape = f"{_text(types)} {_text(sizes)}".strip()[:LONGEST_SHAPE]
    return Collective(seq, op, shape, is_done or _has_ended(entry), _place(entry.get("frames")))


def _has_ended(entry: Mapping[Any, Any]) -> bool:
    # gloo never sets the state; with NCCL, a retired entry that is not completed has timed out.
    is_gloo = _name(entry.get("profiling_name")).startswith("gloo:")
    return entry.get("state") == "completed" or (is_gloo and entry.get("retired") is True)


def _latest(by_seq: Mapping[int, Sequence[Collective]]) -> tuple[Collective, ...]:
    """Returns the collectives of `GroupRecord.latest`; several operations of one launch are not compared."""
    merged = {
        seq: parts[-1] if len(parts) == 1 else parts[-1]._replace(op=COALESCED, shape="")
        for seq, parts in sorted(by_seq.items())
    }
    every = list(merged.values())
    at = next((n for n, collective in enumerate(every) if not collective.is_done), len(every) - 1)
    kept = {*range(max(0, at - 1), at + 1), len(every) - 1}
    return tuple(every[n] for n in sorted(kept) if n >= 0)


def _place(frames: object) -> str:
    """Returns the innermost frame of the training's own code as `train.py:88`."""
    for frame in frames[:64] if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, Mapping):
            file, line = frame.get("filename"), _number(frame.get("line"))
            if isinstance(file, str) and line and file.endswith(".py") and not _LIBRARIES.search(file):
                return _name(f"{file.rpartition('/')[2]}:{line}")
    return ""


def _completed(status: object) -> dict[str, int]:
    rows = status.items() if isinstance(status, Mapping) else ()
    return {
        str(pg): _number(row.get("last_completed_collective")) or 0
        for pg, row in rows
        if isinstance(row, Mapping)
    }


def _configured(config: object) -> dict[str, tuple[int, ...]]:
    """Decodes `pg_config`, whose ranks are a text such as `[0, 1]`; gloo's has none."""
    rows = config.items() if isinstance(config, Mapping) else ()
    ranks = {name: row.get("ranks") for name, row in rows if isinstance(row, Mapping)}
    digits = {
        name: [int(rank) for rank in re.findall(r"\d{1,9}", text)]
        for name, text in ranks.items()
        if isinstance(text, str)
    }
    return _members({name: numbers for name, numbers in digits.items() if name and numbers})


def _members(members: object) -> dict[str, tuple[int, ...]]:
    rows: Iterable[tuple[Any, Any]] = members.items() if isinstance(members, Mapping) else ()
    return {
        _name(name): tuple(sorted({_number(rank) or 0 for rank in ranks}))
        for name, ranks in rows
        if isinstance(ranks, (list, tuple)) and 0 < len(ranks) <= MOST_MEMBERS
    }


def _number(value: object) -> int | None:
    """Returns a number that is not negative, also of a text; None for another value."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < MOST_NUMBER else None


def _name(value: object) -> str:
    """Returns a short text in one line of ASCII; empty for another value."""
    return ascii_line(value[:LONGEST_NAME]) if isinstance(value, str) else ""


def ascii_line(text: str) -> str:
    """Removes all characters but printable ones of ASCII: names come from a dump or another node."""
    return "".join(letter for letter in text if letter.isascii() and letter.isprintable())


def _text(value: object) -> str:
    """Formats a list of types, or of sizes, which are lists themselves."""
    parts = [
        f"[{', '.join(_name(str(number)[:20]) for number in part[:8])}]"
        if isinstance(part, (list, tuple))
        else _name(part)
        for part in (value[:8] if isinstance(value, (list, tuple)) else ())
    ]
    return ", ".join(parts)
