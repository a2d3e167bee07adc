"""Compares the collectives that the ranks of a job have entered: who is missing, and what differs. Pure.

A group is stuck at the first collective that a member has entered and that is not done. Members that have
entered fewer are missing. A missing rank may itself wait, in another group or for a message: only one that
waits for nothing is accused, and only if it is the only one. If none is missing, the members' operations,
sizes and types must agree. A rank without a record, or whose recorder has dropped the group's entries, is
neither accused nor cleared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.observe.collectives.records import COALESCED, Collective, GroupRecord, RankRecord
from ma_boot.wording import Message, ranks_text

MOST_STUCK = 32  # groups of a report
_Key = tuple[str, tuple[int, ...]]


class Difference(NamedTuple):
    """Operation that some ranks have entered at a place where others have entered another one."""

    ranks: tuple[int, ...]
    what: str


class StuckGroup(NamedTuple):
    """A collective that is not done: the ranks that wait in it (`inside`), and the missing ones (`outside`).

    `differs` has what the members have entered as this collective, if it is not the same.
    """

    label: str
    seq: int
    op: str
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    place: str = ""
    differs: tuple[Difference, ...] = ()

    @property
    def collective(self) -> str:
        """Formats the collective: `all_reduce 4 of group tp`."""
        return Message.of("{} {} of group {}", self.op, self.seq, self.label)


class Accused(NamedTuple):
    """The rank for which all others wait, by their collectives, and why.

    `is_missing` is false for one that has entered another collective than the others.
    """

    rank: int
    why: str
    is_missing: bool = True


class Desync(NamedTuple):
    """The stuck groups, those of the accused rank first; `accused` is None without a single such rank."""

    groups: tuple[StuckGroup, ...] = ()
    accused: Accused | None = None

    @classmethod
    def of(cls, records: Mapping[int, RankRecord]) -> Desync:
        """Compares the records of the ranks."""
        stuck = [found for members in _by_group(records).values() if (found := _stuck(members, records))]
        missing = {rank for group in stuck for rank in group.outside}
        waiting = {rank for group in stuck for rank in group.inside}
        free = sorted(rank for rank in missing - waiting if not records[rank].awaits_message)
        stuck.sort(key=lambda group: _order(group, set(free)))
        accused = None
        if missing:
            accused = _missing(stuck[0], free[0]) if len(free) == 1 else None
        elif len(differing := [group for group in stuck if group.differs]) == 1:
            accused = _odd(differing[0])
        return cls(tuple(stuck[:MOST_STUCK]), accused)


def _order(group: StuckGroup, free: set[int]) -> tuple[bool, int, bool, str]:
    """Sorts the groups: first those that wait for a free rank, and of these those that wait for no other."""
    outside = set(group.outside)
    return not outside & free, len(outside - free), not group.differs, group.label


def _by_group(records: Mapping[int, RankRecord]) -> dict[_Key, dict[int, GroupRecord]]:
    """Returns the records of each group by rank: groups of one name with other members are others."""
    groups: dict[_Key, dict[int, GroupRecord]] = {}
    for rank, record in records.items():
        for group in record.groups:
            if not group.members or rank in group.members:
                groups.setdefault((group.name, group.members), {})[rank] = group
    return groups


def _stuck(members: Mapping[int, GroupRecord], records: Mapping[int, RankRecord]) -> StuckGroup | None:
    """Returns the collective at which a group is stuck, or None."""
    pending = {rank: group.pending for rank, group in members.items()}
    first = min((found.seq for found in pending.values() if found), default=0)
    if not first:
        return None
    inside = tuple(sorted(rank for rank, found in pending.items() if found and found.seq == first))
    seen = next(iter(members.values())).members or tuple(members)
    outside = tuple(rank for rank in sorted(seen) if _is_missing(rank, first, members, records))
    here = [(rank, found) for rank in inside if (found := pending[rank])]
    op = here[0][1].op
    place = next((found.place for _, found in here if found.place), "")
    label = next((group.label for group in members.values() if group.label != group.name), "")
    differs = _differences({rank: at for rank, group in members.items() if (at := group.at(first))})
    return StuckGroup(label or members[inside[0]].label, first, op, inside, outside, place, differs)


def _is_missing(
    rank: int, seq: int, members: Mapping[int, GroupRecord], records: Mapping[int, RankRecord]
) -> bool:
    """Returns whether a rank has certainly not entered the collective `seq`."""
    if rank not in records:
        return False
    group = members.get(rank)
    if group is None or not group.latest:
        # It knows the group by another list of members, or its entries were dropped: nothing is certain.
        return not records[rank].is_cut and group is not None
    return group.entered < seq


def _differences(entered: Mapping[int, Collective]) -> tuple[Difference, ...]:
    """Returns what the ranks have entered at one place of the sequence, the rarest first, if it differs."""
    ranks: dict[str, list[int]] = {}
    known = {rank: found for rank, found in entered.items() if found.op and found.op != COALESCED}
    has_shapes = all(found.shape for found in known.values())
    for rank, found in sorted(known.items()):
        ranks.setdefault(f"{found.op} {found.shape}" if has_shapes else found.op, []).append(rank)
    rarest = sorted(ranks.items(), key=lambda pair: (len(pair[1]), pair[1]))
    return tuple(Difference(tuple(members), what) for what, members in rarest) if len(ranks) > 1 else ()


def _missing(group: StuckGroup, rank: int) -> Accused | None:
    if rank not in group.outside or group.differs:
        return None
    template = (
        "never entered {}, in which {} waits"
        if len(group.inside) == 1
        else "never entered {}, in which {} wait"
    )
    why = Message.of(template, group.collective, ranks_text(group.inside))
    return Accused(rank, Message.of("{}, at {}", why, group.place) if group.place else why)


def _odd(group: StuckGroup) -> Accused | None:
    """Accuses the single rank that has entered something else than all others of its group."""
    if len(group.differs) != 2 or len(group.differs[0].ranks) > 1 or len(group.differs[1].ranks) < 2:
        return None
    odd, usual = group.differs
    template = "entered {} as collective {} of group {}, and {} entered {}"
    why = Message.of(template, odd.what, group.seq, group.label, ranks_text(usual.ranks), usual.what)
    return Accused(odd.ranks[0], why, is_missing=False)


def lines_of(groups: Sequence[StuckGroup]) -> list[str]:
    """Formats the stuck groups for people."""
    return [line for group in groups for line in _lines(group)]


def _lines(group: StuckGroup) -> list[str]:
    where = f"{group.collective}, at {group.place}" if group.place else group.collective
    outside = f", {ranks_text(group.outside)} not" if group.outside else ""
    differs = [f"{ranks_text(some.ranks)} entered {some.what}" for some in group.differs]
    return [f"{where}: {ranks_text(group.inside)} in it{outside}", *differs]
