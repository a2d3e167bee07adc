"""Finds the step in the names of files that no framework's layout describes. Pure.

A path may have several numbers: `step_3/model_1.pt`, `7/part_0.bin`. The step is the number that changes with
time; the words beside the numbers show how far a guess may be trusted. Where a wrong guess would publish half
a checkpoint as a complete one, no step is assumed: ranks that save `model_0.pt` and `model_1.pt` at the same
moment have not saved two steps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.checkpoints.layouts.layout import UNFINISHED, matches

# Files that hold weights or states. A number in the name of any other file (`img_7.png`) is not a step.
_WEIGHTS = (
    r"\.(?:pt|pth|ckpt|safetensors|bin|npz|npy|tar|pth\.tar|pkl|pickle|h5|hdf5|msgpack|distcp|mindir|air)"
)
# Logs grow all the time, so they belong to no checkpoint. They are uploaded as ordinary files.
LOGS = r"(?:.*/)?(?:events\.out\.tfevents\.[^/]*|[^/]*\.log(?:\.\d+)?)"
_NUMBER = re.compile(r"([A-Za-z]*)[_=.-]?(\d{1,18})(?![A-Za-z0-9])(?!-of-)")

_EPOCH_WORDS = frozenset(("epoch", "epochs"))
_STEP_WORDS = _EPOCH_WORDS | {
    *("step", "steps", "globalstep", "iter", "iters", "iteration", "iterations"),
}
# Words that usually stand before a step, and sometimes before a rank.
_CHECKPOINT_WORDS = frozenset(
    {
        *("ckpt", "ckpts", "checkpoint", "checkpoints", "chkpt", "snapshot", "save", "saved"),
        *("last", "latest", "best", "global", "model", "models", "state", "states", "net", "network"),
        *("weights", "params", "optim", "optimizer", "opt", "sched", "scheduler", "scaler", "ema", "rng"),
        *("encoder", "decoder", "gen", "generator", "g", "dis", "discriminator", "d", "actor", "critic"),
        *("lora", "adapter"),
    }
)
# Words before numbers that stay the same from step to step.
_OTHER_WORDS = frozenset(
    {
        *("rank", "ranks", "device", "dev", "node", "host", "local", "world", "size", "worker", "proc"),
        *("process", "gpu", "npu", "card", "mp", "tp", "pp", "dp", "cp", "zero", "stage"),
        *("shard", "shards", "part", "parts", "piece", "chunk", "split", "bucket", "of"),
        *("layer", "layers", "block", "head", "expert", "fold", "seed", "run", "trial", "exp", "job"),
        *("version", "v", "fp", "bf", "int", "uint", "float"),
    }
)
# Trust in a number by the word before it: step_N; N, ckpt_N, model_N; foo_N.
_CERTAIN, _LIKELY, _UNKNOWN = 3, 2, 1


class Seen(NamedTuple):
    """Times of a file, in seconds of one clock: of the first look that showed it, and of its last change."""

    first: float
    last: float


class StepNames(NamedTuple):
    """The patterns of the steps that the names show, and `unclear` weights, whose names show no step."""

    patterns: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


class PathNumber(NamedTuple):
    """A number in a path: its span, the word before it, and the part of the path that it is in."""

    start: int
    end: int
    word: str
    value: int
    part: int
    is_directory: bool

    @property
    def trust(self) -> int:
        """Trust in its word; 0: it is not a step."""
        word = self.word.lower()
        if word in _STEP_WORDS:
            return _CERTAIN
        if word in _OTHER_WORDS:
            return 0
        return _LIKELY if not word or word in _CHECKPOINT_WORDS else _UNKNOWN


def numbers_in(path: str) -> list[PathNumber]:
    """Returns the numbers in a path from left to right, without those in its suffix."""
    numbers: list[PathNumber] = []
    offset, parts = 0, path.split("/")
    for index, part in enumerate(parts):
        is_directory = index < len(parts) - 1
        stem = part if is_directory else re.sub(rf"(?:{_WEIGHTS}|\.[A-Za-z]\w*)$", "", part)
        for hit in _NUMBER.finditer(stem):
            start, end = hit.span(2)
            numbers.append(
                PathNumber(
                    start=offset + start,
                    end=offset + end,
                    word=hit[1],
                    value=int(hit[2]),
                    part=index,
                    is_directory=is_directory,
                )
            )
        offset += len(part) + 1
    return numbers


def has_number(path: str, number: int) -> bool:
    """Returns whether a path has this number."""
    return any(found.value == number for found in numbers_in(path))


class _Family(NamedTuple):
    """Files whose paths differ in their numbers only."""

    # The numbers of each path.
    numbers: dict[str, list[PathNumber]]

    @property
    def example(self) -> str:
        return min(self.numbers)

    def by_value(self, slot: int) -> dict[int, list[str]]:
        """Returns the paths with each value of the number at this position."""
        paths: dict[int, list[str]] = defaultdict(list)
        for path, numbers in self.numbers.items():
            paths[numbers[slot].value].append(path)
        return {value: paths[value] for value in sorted(paths)}


def _families(paths: Iterable[str]) -> dict[str, _Family]:
    """Groups paths by their template: the path with `\\0` for each number."""
    families: dict[str, _Family] = {}
    for path in paths:
        numbers = numbers_in(path)
        families.setdefault(_blanked(path, numbers), _Family({})).numbers[path] = numbers
    return families


def _blanked(path: str, numbers: Sequence[PathNumber]) -> str:
    for number in reversed(numbers):
        path = f"{path[: number.start]}\0{path[number.end :]}"
    return path


def names_another_step(paths: Iterable[str], step: int, ranks: Collection[int] = ()) -> set[str]:
    """Returns the paths that name another step than this one, if the files of their family name their step.

    A family does so by the number that is this step in at least half of its paths, or by a word such as
    `step`. A number that may be that of a rank is not taken for a step.
    """
    others: set[str] = set()
    for family in _families(paths).values():
        best: tuple[tuple[bool, float, int], set[str]] = ((False, 0.0, 0), set())
        for slot, number in enumerate(family.numbers[family.example]):
            by_value = family.by_value(slot)
            share = len(by_value.get(step, ())) / len(family.numbers)
            certain = number.trust == _CERTAIN
            if (
                not number.trust
                or not share
                or (not certain and (share < 0.5 or set(by_value) <= set(ranks)))
            ):
                continue
            rest = {path for value, members in by_value.items() if value != step for path in members}
            best = max(best, ((certain, share, -slot), rest), key=lambda choice: choice[0])
        others |= best[1]
    return others


class _Choice(NamedTuple):
    """The number of a family that is chosen as the step."""

    family: _Family
    slot: int
    trust: int
    is_directory: bool
    values: set[int]


def step_names_of(files: Mapping[str, Seen], ranks: Collection[int] = (), gap: float = 0.0) -> StepNames:
    """Finds the patterns of the steps in these files, whose paths are relative to the output's directory.

    `ranks` are numbers that may be those of ranks, empty for a job of one rank. Files that came at least
    `gap` seconds after the last change of those with a smaller number were not written together with them.
    """
    paths = [path for path in files if not matches(UNFINISHED, path) and not matches(LOGS, path)]
    choices: list[_Choice] = []
    unclear: list[str] = []
    for family in _families(paths).values():
        choice = _choice(family, files, frozenset(ranks), gap)
        if choice is not None:
            choices.append(choice)
        elif re.fullmatch(rf".*{_WEIGHTS}", family.example, re.DOTALL):
            unclear.append(family.example)
    if not choices:
        return StepNames(unclear=tuple(sorted(unclear)))
    best = max((choice.trust, choice.is_directory) for choice in choices)
    steps = {
        value for choice in choices if (choice.trust, choice.is_directory) == best for value in choice.values
    }
    # Others belong to the same steps if their numbers say so; the newest step may still be written.
    chosen = [
        choice
        for choice in choices
        if (choice.trust, choice.is_directory) == best
        or (choice.values <= steps and len(steps - choice.values) <= 1)
    ]
    patterns = tuple(sorted({_pattern(choice) for choice in chosen}))
    others = (choice.family.example for choice in choices if choice not in chosen)
    return StepNames(patterns, tuple(sorted([*unclear, *others])))


def _choice(family: _Family, files: Mapping[str, Seen], ranks: Collection[int], gap: float) -> _Choice | None:
    """Chooses the step of a family; returns None if it has none, or if its numbers are ambiguous."""
    candidates = []
    for slot, number in enumerate(family.numbers[family.example]):
        by_value = family.by_value(slot)
        if not number.trust or not _holds_weights(family, number):
            continue
        changes = _changes_with_time(by_value, files, gap)
        if number.trust < _CERTAIN and ranks and set(by_value) <= set(ranks):
            # These may be the numbers of ranks.
            continue
        if number.trust == _UNKNOWN and not changes:
            continue
        is_epoch = number.word.lower() in _EPOCH_WORDS
        order = (
            *(number.trust == _CERTAIN, changes, number.trust, number.is_directory),
            *(-number.part, not is_epoch, -slot),
        )
        candidates.append((order, _Choice(family, slot, number.trust, number.is_directory, set(by_value))))
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def _holds_weights(family: _Family, number: PathNumber) -> bool:
    """Returns whether a step by this number would hold weights."""
    if number.is_directory and number.word and number.trust >= _LIKELY:
        return True
    return re.fullmatch(rf".*{_WEIGHTS}", family.example, re.DOTALL) is not None


def _changes_with_time(by_value: Mapping[int, list[str]], files: Mapping[str, Seen], gap: float) -> bool:
    """Returns whether the files of each value were at rest before those of the next one came."""
    values = list(by_value)
    if len(values) < 2:
        return False
    for value, following in zip(values, values[1:]):
        came = min(files[path].first for path in by_value[following])
        if any(files[path].last + gap > came for path in by_value[value]):
            return False
    return True


def _pattern(choice: _Choice) -> str:
    """Returns the pattern of a family's step: its directory, or the file."""
    path, numbers = choice.family.example, choice.family.numbers[choice.family.example]
    step = numbers[choice.slot]
    if step.is_directory:
        path = "/".join(path.split("/")[: step.part + 1])
    epoch = next((number for number in numbers[: choice.slot] if number.word.lower() in _EPOCH_WORDS), None)
    text, at = "", 0
    for number in numbers:
        if number.end > len(path):
            break
        field = "{step}" if number is step else "{epoch}" if number is epoch else "*"
        text += _literal(path[at : number.start]) + field
        at = number.end
    return text + _literal(path[at:])


def _literal(text: str) -> str:
    """Escapes text of a pattern; a space separates patterns in a manifest, so it becomes `*`."""
    return text.replace("{", "{{").replace("}", "}}").replace(" ", "*")
