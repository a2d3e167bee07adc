"""Names the suspect of a hang, a rank or a node, with the evidence. Pure.

The rules are ordered by the strength of their evidence: a node that does not answer; a rank that has ended or
was stopped; waits between ranks as HCCL reports them; collectives as PyTorch records them; a rank that does
something else than most others, or than the waiting ones; a rank that is idle while all others work; a rank
that stopped before the others. Without evidence no rank is suspected: naming no rank is better than naming
the wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ma_boot.node.observe.collectives.desync import Accused
from ma_boot.node.observe.rank_stacks.stack_samples import LOOP_LINES, MOVES, STAYS, UNKNOWN, WAITS
from ma_boot.node.observe.rank_stacks.stacks import (
    COLLECTIVE,
    DEVICE,
    GRADIENT,
    MESSAGE,
    OWN,
    UNKNOWN_CODE,
    Activity,
    RankAtHang,
    activity,
    threads_of,
)
from ma_boot.report.result import HangSuspect
from ma_boot.wording import Message, ranks_text

SOONER_SECONDS = 2.0  # a rank that stopped so much before all others did not wait for them
# Libraries of device drivers in a stack with native calls.
_DEVICE_LIBRARY = r"\(lib(cuda|cudart|nccl|ascendcl|runtime|hccl)[.-]"
_ORDER = (OWN, MESSAGE, DEVICE, GRADIENT, COLLECTIVE)  # who is in one of the first ones is likelier the cause


def suspect(
    ranks: Sequence[RankAtHang], silent: Sequence[int] = (), accused: Accused | None = None
) -> HangSuspect | None:
    """The suspect; `silent` are running nodes without an answer, `accused` the rank that Desync accuses."""
    ranks = sorted(ranks)
    if silent:
        why = Message.of("does not answer, so its ranks keep the others waiting")
        if len(silent) > 1:
            why = Message.of("{}; neither do nodes {}", why, ", ".join(map(str, silent[1:])))
        return HangSuspect(silent[0], None, why)
    by_collectives = partial(_by_collectives, accused=accused)
    rules = (_gone, _by_hccl, by_collectives, _odd, _busy, _idle, _other_threads, _first_quiet)
    return next(filter(None, (rule(ranks) for rule in rules)), None)


def _gone(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    running = [rank for rank in ranks if rank.ended is None]
    ended = [rank for rank in ranks if rank.ended is not None]
    # Ranks that end well do so one after the other: half of them may have ended, and the rest be slow.
    bad = [rank for rank in ended if rank.ended != 0]
    if ended and (len(ended) < len(running) or (bad and len(ended) == len(running))):
        gone, others = (bad or ended)[0], ranks_text([rank.rank for rank in running])
        if gone.ended == UNKNOWN_CODE:
            why = Message.of("has ended, and {} run on", others)
        else:
            why = Message.of("has ended with exit code {}, and {} run on", gone.ended, others)
        return HangSuspect(gone.node, gone.rank, why)
    if len(running) == 1 and ended and all(rank.ended in (0, UNKNOWN_CODE) for rank in ended):
        template = "still runs, while {} has ended" if len(ended) == 1 else "still runs, while {} have ended"
        why = Message.of(template, ranks_text([rank.rank for rank in ended]))
        return HangSuspect(running[0].node, running[0].rank, why)
    stopped = [rank for rank in running if rank.state in ("T", "t")]
    if stopped and len(stopped) < len(running):
        why = Message.of("is stopped by a signal (SIGSTOP, or a debugger)")
        return HangSuspect(stopped[0].node, stopped[0].rank, why)
    return None


def _by_hccl(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    waits = {at.rank: at.waits_for for at in ranks if at.waits_for}
    node = {at.rank: at.node for at in ranks}
    for rank, behind in roots(waits):
        says = {node[other] for other in behind if rank in waits[other]}
        if rank in node and (len(says) > 1 or node[rank] in says):  # no other node alone can accuse it
            why = Message.of(
                "keeps others waiting: by HCCL, {} waits for it, and it for none"
                if len(behind) == 1
                else "keeps others waiting: by HCCL, {} wait for it, and it for none",
                ranks_text(behind),
            )
            return HangSuspect(node[rank], rank, why)
    ring = circle(waits)
    if ring and ring[0] in node and (len(ring) < len(ranks) or len(ring) == 2):
        why = Message.of("is in a circle: by HCCL, {} wait for each other", ranks_text(ring))
        return HangSuspect(node[ring[0]], ring[0], why)
    return None


def _by_collectives(ranks: Sequence[RankAtHang], accused: Accused | None) -> HangSuspect | None:
    if accused is None:
        return None
    named = next(at for at in ranks if at.rank == accused.rank)
    threads = threads_of(named.stack)
    # gloo records no messages, NCCL no collective that connects its group; other libraries record nothing.
    if threads and accused.is_missing and activity(threads).kind in (MESSAGE, COLLECTIVE):
        return None
    why = Message.of("{}; it is {}", accused.why, activity(threads).doing()) if threads else accused.why
    return HangSuspect(named.node, named.rank, why)


def at_work(ranks: Sequence[RankAtHang], is_look: bool) -> list[RankAtHang]:
    """Returns the ranks that make progress, or print and wait for no rank: the others wait for them.

    The others are in a wait for other ranks; or they are the majority, all at one place or without stacks. In
    a look at ranks that have missed their steps, output alone is no work.
    """
    running, longest = _running(ranks)
    moving = [rank for rank in running if rank.progress == MOVES]
    if is_look:
        return moving
    does = {rank: activity(threads_of(rank.stack)) for rank in running}
    printing = [rank for rank in running if does[rank].kind == OWN and rank.printed * 2 < longest]
    working = list(dict.fromkeys([*printing, *moving]))
    busy = set(working)
    others = [rank for rank in running if rank not in busy]
    most = len(others) * 2 > len(running) and len({does[rank].key for rank in others}) == 1
    return working if others and (most or all(does[rank].kind != OWN for rank in others)) else []


Groups = dict[tuple[str, ...], list[RankAtHang]]


def _odd(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    """The rank that does something else than the ranks that wait.

    If more than half are at one place, they wait, whatever it is called, unless only the others are where one
    waits for another. Without such a place, those wait that are where one waits for others: of who is nowhere
    else nothing can be told.
    """
    does = _doings(ranks)
    groups: Groups = {}
    for rank, what in does.items():
        groups.setdefault(what.key, []).append(rank)
    usual = max(groups.values(), key=len, default=[])
    waiting = [rank for rank, what in does.items() if what.kind != OWN]
    if len(usual) * 2 > len(does) and not (does[usual[0]].loads and len(usual) + len(waiting) == len(does)):
        waiting = usual
    at_device = _at_device(does)
    if at_device and len(waiting) == len(does):
        waiting = [rank for rank in waiting if rank not in at_device]
    if all(_works(rank, does[rank]) for rank in waiting):
        return None
    waits = set(waiting)
    others = [rank for rank in does if rank not in waits]
    alive = {rank for rank in _alive(does) if does[rank].kind == OWN}
    if not others or (alive and not alive & set(others)):
        return None
    chosen = min(
        (rank for rank in others if rank in alive or not alive),
        key=lambda rank: (
            _ORDER.index(does[rank].kind),
            rank.state != "D",
            rank.progress == WAITS,
            len(groups[does[rank].key]),
            -rank.quiet if does[rank].kind == OWN else 0,
            rank.rank,
        ),
    )
    if any(_is_as_odd(rank, chosen, does) for rank in others):
        return None
    usual = max((groups[does[rank].key] for rank in waiting), key=len)
    return HangSuspect(chosen.node, chosen.rank, _difference(chosen, does, groups, usual))


def _doings(ranks: Sequence[RankAtHang]) -> dict[RankAtHang, Activity]:
    """The activities of the ranks with stacks; those of ranks in one short loop have equal keys."""
    does = {rank: activity(threads) for rank in ranks for threads in [threads_of(rank.stack)] if threads}
    looping = [
        (what.at, rank)
        for rank, what in does.items()
        if rank.progress in (STAYS, WAITS) and what.kind == OWN and what.at is not None
    ]
    # By function and the calls around it: the first rank of a loop, and its line.
    loops: dict[tuple[str, ...], tuple[int, Activity]] = {}
    for at, rank in sorted(looping, key=lambda pair: pair[0].line):
        what = does[rank]
        function = (at.function, at.file, *what.key[2:])
        line, first = loops.setdefault(function, (at.line, what))
        if at.line - line < LOOP_LINES:
            does[rank] = what._replace(key=first.key)
        else:
            loops[function] = at.line, what
    return does


def _busy(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    """A rank that uses CPU at one place of its own code, while at least as many wait."""
    running, _ = _running(ranks)
    busy = [rank for rank in running if rank.progress == STAYS]
    waiting = [rank.rank for rank in running if rank.progress == WAITS]
    if not busy or len(busy) > len(waiting) or len(busy) + len(waiting) < len(running):
        return None
    doing = activity(threads_of(busy[0].stack)).doing()
    template = "uses CPU {}, while {} waits" if len(waiting) == 1 else "uses CPU {}, while {} wait"
    return HangSuspect(busy[0].node, busy[0].rank, Message.of(template, doing, ranks_text(waiting)))


def _idle(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    """The only rank without life, while all others make progress in their own code, so that none waits."""
    running, longest = _running(ranks)
    moving = [rank.rank for rank in running if _works(rank, activity(threads_of(rank.stack)))]
    idle = [rank for rank in running if rank.rank not in moving]
    if len(idle) != 1 or not moving or idle[0].quiet < longest or idle[0].progress == STAYS:
        return None
    template = "is idle, while {} makes progress" if len(moving) == 1 else "is idle, while {} make progress"
    return HangSuspect(idle[0].node, idle[0].rank, Message.of(template, ranks_text(moving)))


def _works(rank: RankAtHang, what: Activity) -> bool:
    """Returns whether a rank makes progress in its own code, so that it waits for no other one."""
    return rank.progress == MOVES and what.kind == OWN


def _is_as_odd(rank: RankAtHang, chosen: RankAtHang, does: Mapping[RankAtHang, Activity]) -> bool:
    """Returns whether two ranks stay in their own code at different places, with the same evidence."""
    return (
        does[rank].kind == does[chosen].kind == OWN
        and does[rank].key != does[chosen].key
        and rank.progress == chosen.progress != UNKNOWN
    )


def _at_device(does: Mapping[RankAtHang, Activity]) -> list[RankAtHang]:
    """The ranks that wait for their device, while at least as many wait for others on the host.

    Those are in a collective of another library than the device's, so they wait for the former.
    """
    at_device = [rank for rank, what in does.items() if what.kind == DEVICE]
    on_host = [
        rank
        for rank, what in does.items()
        if what.kind == COLLECTIVE and not re.search(_DEVICE_LIBRARY, rank.stack)
    ]
    return at_device if len(at_device) <= len(on_host) else []


def _alive(ranks: Iterable[RankAtHang]) -> list[RankAtHang]:
    """The ranks that have shown life long after others have stopped; CPU time without progress is none."""
    running, longest = _running(ranks)
    return [rank for rank in running if rank.progress in (UNKNOWN, MOVES) and rank.quiet * 2 < longest]


def _running(ranks: Iterable[RankAtHang]) -> tuple[list[RankAtHang], float]:
    """The ranks that have not ended, and the seconds for which one of them has been quiet at most."""
    running = [rank for rank in ranks if rank.ended is None]
    return running, max((rank.quiet for rank in running), default=0.0)


def _difference(
    chosen: RankAtHang, does: dict[RankAtHang, Activity], groups: Groups, usual: Sequence[RankAtHang]
) -> str:
    same = [rank.rank for rank in groups[does[chosen].key] if rank is not chosen]
    what, who = does[chosen].doing(), ranks_text([rank.rank for rank in usual])
    if same:
        what = Message.of("{}, as {}", what, ranks_text(same))
    template = "is {}, while {} is {}" if len(usual) == 1 else "is {}, while {} are {}"
    why = Message.of(template, what, who, does[usual[0]].doing())
    if chosen.state == "D":
        why = Message.of("{}; it sleeps uninterruptibly (D), so a disk or a driver does not answer", why)
    return why


def _other_threads(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    """All main threads are at the same place, but one rank has another thread that no other rank has."""
    sets = {
        rank: frozenset(activity((thread,)).doing() for thread in threads[1:])
        for rank in ranks
        for threads in [threads_of(rank.stack)]
        if threads
    }
    counts = Counter(sets.values())
    if len(sets) < 3 or len(counts) != 2:
        return None
    (usual, number), (odd, few) = counts.most_common(2)
    if few != 1 or number < 2 or not odd - usual:
        return None
    chosen = next(rank for rank, doings in sets.items() if doings == odd)
    why = Message.of("has a thread {}, which no other rank has", sorted(odd - usual)[0])
    return HangSuspect(chosen.node, chosen.rank, why)


def _first_quiet(ranks: Sequence[RankAtHang]) -> HangSuspect | None:
    quiet = sorted((rank for rank in ranks if rank.ended is None), key=lambda rank: -rank.quiet)
    if _alive(ranks) or not all(threads_of(rank.stack) for rank in quiet):
        return None
    # One that polls is never quiet, and may have stopped first.
    if any(rank.progress for rank in quiet):
        return None
    if len(quiet) < 2 or quiet[0].quiet - quiet[1].quiet < SOONER_SECONDS:
        return None
    sooner = quiet[0].quiet - quiet[1].quiet
    template = "stopped {} s before all others; the stacks show no difference"
    return HangSuspect(quiet[0].node, quiet[0].rank, Message.of(template, f"{sooner:.0f}"))


_NOTIFY = r"Notify record from remote rank:? ?\[(\d{1,9})\]"
_ADDRESS = r"\|\s*[0-9a-fA-F.:%\w]+\((\d{1,9})\)\s*"
_LINK = rf"{_ADDRESS}\|\s*\d+\s*{_ADDRESS}\|[^|]*\|[^|]*\|\s*(?:time ?out|connecting|init|fail)"
MOST_WAITS = 64


def waited_for(output: str, rank: int) -> tuple[int, ...]:
    """The ranks that this rank waits for, by what it has printed."""
    numbers = [int(number) for number in re.findall(_NOTIFY, output)]
    for other, own in re.findall(_LINK, output):
        numbers += [int(other)] if int(own) == rank else []
    return tuple(dict.fromkeys(other for other in numbers if other != rank))[:MOST_WAITS]


def roots(waits: Mapping[int, Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Returns the ranks at the end of all chains of waits, each with the ranks that wait for it.

    The rank with the most waiting ones is first; a rank that waits for several of them is counted once."""
    behind: dict[int, list[int]] = {}
    for rank, others in waits.items():
        for other in others:
            behind.setdefault(other, []).append(rank)
    seen: set[int] = set()
    behind_roots: list[tuple[int, list[int]]] = []
    for root in sorted(rank for rank in behind if not waits.get(rank)):
        layer, members = [root], []
        while layer:
            next_layer = (behind_it for rank in layer for behind_it in behind.get(rank, ()))
            layer = list(dict.fromkeys(rank for rank in next_layer if rank not in seen))
            seen.update(layer)
            members += layer
        behind_roots.append((root, sorted(members)))
    return sorted(behind_roots, key=lambda pair: (-len(pair[1]), pair[0]))


def circle(waits: Mapping[int, Sequence[int]]) -> list[int]:
    """The smallest circle of ranks that wait for each other, each for the first that it names."""
    seen: set[int] = set()
    smallest: list[int] = []
    for start in sorted(waits):
        path: dict[int, None] = {}
        rank = start
        while waits.get(rank) and rank not in seen:
            seen.add(rank)
            path[rank] = None
            rank = waits[rank][0]
        ring = list(path)[list(path).index(rank) :] if rank in path else []
        if ring and (not smallest or len(ring) < len(smallest)):
            smallest = ring
    return smallest


def waits_text(waits: Mapping[int, Iterable[int]]) -> list[str]:
    """The graph as lines, `rank 1 waits for 0`."""
    return [
        f"rank {rank} waits for {', '.join(map(str, others))}"
        for rank, others in sorted((rank, list(others)) for rank, others in waits.items())
        if others
    ]
