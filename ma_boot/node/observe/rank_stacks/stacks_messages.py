"""Messages about stacks between nodes: encoding, and decoding of what another node sent. Pure.

`stacks` has the ranks of a node, `ended` the exit codes of its ranks, `stacks_report` the report of node 0. A
peer may run other code, so a message with an unexpected value is dropped as a whole; text loses the
characters that would move a terminal's cursor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ma_boot.node.observe.collectives.record_messages import (
    decode_record,
    decode_stuck,
    encode_record,
)
from ma_boot.node.observe.peers import PeerMessage, Peers
from ma_boot.node.observe.rank_stacks.stacks import Fold, RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_report import LONGEST_STACK, MOST_SHOWN_LINES, StacksReport
from ma_boot.node.observe.rank_stacks.suspect import MOST_WAITS
from ma_boot.report.result import HangSuspect
from ma_boot.wording import text_in

LONGEST_TEXT = 150_000  # characters of a message's stacks, of up to six bytes each
MOST_RANKS = 64  # of a node
MOST_FOLDS = 256  # of a report
MOST_GROUPS = 256  # process groups of all ranks of a message, of some 400 bytes each
LONGEST_LINE = 1000  # characters
LONGEST_WORD = 16  # characters


def encode_ranks(ranks: Sequence[RankAtHang]) -> dict[str, Any]:
    """Encodes the ranks of this node; stacks are cut so that the message keeps its limit."""
    longest = LONGEST_TEXT // max(1, len(ranks))
    groups = max(1, MOST_GROUPS // max(1, len(ranks)))
    return {
        "ranks": [
            {
                **rank._replace(stack=rank.stack[:longest])._asdict(),
                "record": rank.record and encode_record(rank.record, groups),
            }
            for rank in ranks[:MOST_RANKS]
        ]
    }


def encode_report(report: StacksReport) -> dict[str, Any]:
    """Encodes the report of node 0, within the limits of a message."""
    longest = LONGEST_TEXT // max(1, len(report.folded))
    folds = tuple(Fold(fold.ranks, fold.stack[:longest]) for fold in report.folded[:MOST_FOLDS])
    return report._replace(folded=folds, waits=report.waits[:MOST_SHOWN_LINES]).fields()


def decode_ranks(message: PeerMessage, peers: Peers) -> list[RankAtHang] | None:
    """Decodes the ranks of another node; None if the message is malformed or names ranks of other nodes."""
    try:
        ranks = [
            RankAtHang(
                rank=int(row["rank"]),
                node=message.node,
                stack=_plain(row["stack"]),
                quiet=float(row["quiet"]),
                waits_for=tuple(map(int, row["waits_for"][:MOST_WAITS])),
                ended=None if row["ended"] is None else int(row["ended"]),
                state=_plain(row["state"])[:1],
                printed=float(row["printed"]),
                progress=_plain(row["progress"])[:LONGEST_WORD],
                record=row["record"] and decode_record(row["record"]),
            )
            for row in message.body["ranks"][:MOST_RANKS]
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return _plausible(ranks, peers)


def decode_ends(message: PeerMessage, peers: Peers) -> list[RankAtHang] | None:
    """Decodes the ended ranks of another node; None as for `decode_ranks`."""
    try:
        rows = message.body["codes"][:MOST_RANKS]
        ranks = [RankAtHang(int(rank), message.node, ended=int(code)) for rank, code in rows]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return _plausible(ranks, peers)


def _plausible(ranks: list[RankAtHang], peers: Peers) -> list[RankAtHang] | None:
    """Returns the ranks if they are distinct ranks of that node and their times are finite; else None."""
    distinct = len({rank.rank for rank in ranks}) == len(ranks)
    right = all(
        peers.has_rank(rank.node, rank.rank) and math.isfinite(rank.quiet + rank.printed) for rank in ranks
    )
    return ranks if distinct and right else None


def decode_report(body: Mapping[str, Any]) -> StacksReport | None:
    """Decodes the report of node 0; None if it is malformed."""
    try:
        named = body["suspect"]
        rank = named and named["rank"]
        suspected = named and HangSuspect(
            int(named["node"]), None if rank is None else int(rank), text_in(named, "why", _line)
        )
        return StacksReport(
            folded=tuple(
                Fold(tuple(map(int, fold["ranks"])), _plain(fold["stack"]))
                for fold in body["folded"][:MOST_FOLDS]
            ),
            suspect=suspected or None,
            waits=tuple(_line(line) for line in body["waits"][:MOST_SHOWN_LINES]),
            silent=tuple(map(int, body["silent"])),
            working=tuple(map(int, body["working"])),
            busy=tuple(map(int, body["busy"])),
            stuck=decode_stuck(body["stuck"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _plain(text: object) -> str:
    """Removes control characters; raises TypeError for a value that is no text."""
    if not isinstance(text, str):
        raise TypeError
    return "".join(letter for letter in text[:LONGEST_STACK] if letter.isprintable() or letter == "\n")


def _line(text: object) -> str:
    return _plain(text).replace("\n", " ")[:LONGEST_LINE]
