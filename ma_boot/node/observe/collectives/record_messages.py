"""Records of collectives and stuck groups as plain values, for messages between nodes and for events. Pure.

Ranks are texts such as `0-7, 9`. Decoders raise `TypeError` or `ValueError` for a malformed value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ma_boot.node.observe.collectives.desync import MOST_STUCK, Difference, StuckGroup
from ma_boot.node.observe.collectives.records import (
    LONGEST_SHAPE,
    MOST_GROUPS,
    MOST_NUMBER,
    Collective,
    GroupRecord,
    RankRecord,
    ascii_line,
)
from ma_boot.wording import ranges

MOST_RANKS = 4096  # of a text
LONGEST_TEXT = 200  # characters
LONGEST_RANKS = 30_000  # characters
MOST_DIFFERENCES = 8
MOST_LATEST = 3


def encode_record(record: RankRecord, most_groups: int) -> list[Any]:
    """Encodes the record of a rank; groups with a collective that is not done come first."""
    groups = sorted(record.groups, key=lambda group: group.pending is None)[:most_groups]
    is_cut = record.is_cut or len(groups) < len(record.groups)
    return [[_encode_group(group) for group in groups], is_cut, record.awaits_message]


def decode_record(value: Any) -> RankRecord:
    """Decodes the record of a rank."""
    groups, is_cut, awaits_message = value
    return RankRecord(
        tuple(_decode_group(group) for group in _list(groups)[:MOST_GROUPS]),
        bool(is_cut),
        bool(awaits_message),
    )


def encode_stuck(groups: Iterable[StuckGroup]) -> list[dict[str, Any]]:
    """Encodes stuck groups."""
    return [
        {
            **group._asdict(),
            "inside": ranges(group.inside),
            "outside": ranges(group.outside),
            "differs": [{"ranks": ranges(some.ranks), "what": some.what} for some in group.differs],
        }
        for group in groups
    ]


def decode_stuck(value: Any) -> tuple[StuckGroup, ...]:
    """Decodes stuck groups; raises `KeyError`, too."""
    return tuple(
        StuckGroup(
            label=_text(row["label"]),
            seq=_number(row["seq"]),
            op=_text(row["op"]),
            inside=numbers_in(row["inside"]),
            outside=numbers_in(row["outside"]),
            place=_text(row["place"]),
            differs=tuple(
                Difference(numbers_in(some["ranks"]), _text(some["what"]))
                for some in _list(row["differs"])[:MOST_DIFFERENCES]
            ),
        )
        for row in _list(value)[:MOST_STUCK]
    )


def numbers_in(text: Any) -> tuple[int, ...]:
    """Parses `0-7, 9`, at most so many numbers as a job has ranks."""
    numbers: list[int] = []
    for part in _text(text, LONGEST_RANKS).split(", ") if text else ():
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if span is None:
            raise ValueError(part)
        low, high = int(span[1]), int(span[2] or span[1])
        numbers += range(low, min(high + 1, low + MOST_RANKS - len(numbers)))
    return tuple(numbers)


def _encode_group(group: GroupRecord) -> list[Any]:
    return [group.name, group.label, ranges(group.members), [list(collective) for collective in group.latest]]


def _decode_group(value: Any) -> GroupRecord:
    name, label, members, latest = value
    return GroupRecord(
        _text(name),
        _text(label),
        numbers_in(members),
        tuple(_decode_collective(collective) for collective in _list(latest)[:MOST_LATEST]),
    )


def _decode_collective(value: Any) -> Collective:
    seq, op, shape, is_done, place = value
    return Collective(_number(seq), _text(op), _text(shape, LONGEST_SHAPE), bool(is_done), _text(place))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(value)
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < MOST_NUMBER:
        raise ValueError(value)
    return value


def _text(value: Any, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return ascii_line(value[:longest])
