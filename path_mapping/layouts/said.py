"""What training code has said of its checkpoints by `ma_boot.training.checkpoint`. Pure."""

from __future__ import annotations

import json
from typing import Collection, Dict, Iterable, List, NamedTuple, Optional, Set

from path_mapping.layouts.layout import EPOCH, HIGHEST


class _Note(NamedTuple):
    process: int
    number: int
    rank: Optional[int]
    node: bool


def said_steps(texts: Iterable[str], ranks: Collection[int], root: str = "/") -> Set[int]:
    """The numbers of the steps that are complete on the node of these ranks, by what was said there.

    Each text is what one process has written so far: a JSON object per line; what is no such object, as a
    line that was cut, is left out. A step is complete when it was said for the whole node, by each of its
    ranks, or by each process that has spoken of an earlier step: not every rank need save. What was said of
    a directory counts if that is `root`, a real path, or below it.
    """
    notes = [note for process, text in enumerate(texts) for note in _notes(process, text, root)]
    complete = set()
    by_step: Dict[int, List[_Note]] = {}
    for note in notes:
        by_step.setdefault(note.number, []).append(note)
    for number, said in by_step.items():
        speakers = {note.process for note in said}
        before = {note.process for note in notes if note.number < number}
        all_ranks = bool(ranks) and set(ranks) <= {note.rank for note in said}
        if any(note.node for note in said) or all_ranks or (before and before <= speakers):
            complete.add(number)
    return complete


def _notes(process: int, text: str, root: str) -> List[_Note]:
    found = (_note(process, line, root) for line in text.splitlines())
    return [note for note in found if note is not None]


def _note(process: int, line: str, root: str) -> Optional[_Note]:
    try:
        said = json.loads(line)
        step, epoch, rank = said["step"], said.get("epoch"), said.get("rank")
        number = int(step) if epoch is None else int(epoch) * EPOCH + int(step)
        directory = said.get("directory")
        if directory is not None and not f"{directory}/".startswith(f"{root.rstrip('/')}/"):
            return None
        note = _Note(process, number, None if rank is None else int(rank), said.get("node") is True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return note if 0 <= number < HIGHEST else None
