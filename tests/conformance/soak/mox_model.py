"""Operations of `path_mapping.file`, and what they do. Pure; `program` performs them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.conformance.soak.model import digest

MIB = 1 << 20
DIRECTORIES = ("d0", "d1", "d2")
NAMES = tuple(f"{directory}/f{number}" for directory in DIRECTORIES for number in range(3))
Contents = Mapping[str, bytes]


class Operation(NamedTuple):
    """One call: its kind, one or two names or directories, and the content that it writes."""

    kind: str
    source: str
    target: str = ""
    seed: int = 0
    size: int = 0

    @property
    def content(self) -> bytes:
        return random.Random(self.seed).randbytes(self.size)


@dataclass(frozen=True)
class World:
    """The objects below `mox/`, and the files below `m`."""

    objects: Contents
    files: Contents


def _below(contents: Contents, directory: str) -> dict[str, bytes]:
    return {name: content for name, content in contents.items() if name.partition("/")[0] == directory}


def _moved(contents: Contents, source: str, target: str) -> dict[str, bytes]:
    return {
        f"{target}/{name.partition('/')[2]}": content for name, content in _below(contents, source).items()
    }


def _without(contents: Contents, gone: str) -> dict[str, bytes]:
    """Without this file, or all below this directory."""
    return {
        name: content for name, content in contents.items() if name != gone and name.partition("/")[0] != gone
    }


class Copies(NamedTuple):
    """Copies of a kind of operation: `objects` or `files` to either, one of them or a `tree`.

    `moves`: the source is removed.
    """

    source: str
    target: str
    tree: bool = False
    moves: bool = False


COPIES: Mapping[str, Copies] = {
    "copy_up": Copies("files", "objects"),
    "copy_down": Copies("objects", "files"),
    "copy_inside": Copies("objects", "objects"),
    "tree_up": Copies("files", "objects", tree=True),
    "tree_down": Copies("objects", "files", tree=True),
    "rename": Copies("objects", "objects", moves=True),
    "move_inside": Copies("objects", "objects", tree=True, moves=True),
    "move_up": Copies("files", "objects", tree=True, moves=True),
    "move_down": Copies("objects", "files", tree=True, moves=True),
}
OF_ANY_NAME = ("write", "dropped", "aborted", "append", "save", "exists")
OF_OBJECTS = ("remove", "read", "read_pieces", "read_end")
OF_DIRECTORIES = ("remove_tree", "list")
KINDS = (*COPIES, *OF_ANY_NAME, *OF_OBJECTS, *OF_DIRECTORIES)


def after(world: World, operation: Operation) -> World:
    """The world after the operation has succeeded."""
    kind, source, target = operation[:3]
    if kind in COPIES:
        copies = COPIES[kind]
        contents: Contents = getattr(world, copies.source)
        new = _moved(contents, source, target) if copies.tree else {target: contents[source]}
        if copies.moves:
            world = replace(world, **{copies.source: _without(contents, source)})
        return replace(world, **{copies.target: {**getattr(world, copies.target), **new}})
    if kind in ("write", "dropped", "append"):
        earlier = world.objects.get(source, b"") if kind == "append" else b""
        return replace(world, objects={**world.objects, source: earlier + operation.content})
    if kind == "save":
        return replace(world, files={**world.files, source: operation.content})
    if kind in ("remove", "remove_tree"):
        return replace(world, objects=_without(world.objects, source))
    return world


def answer(world: World, operation: Operation) -> str | None:
    """Result of an operation that changes nothing."""
    if operation.kind in ("read", "read_pieces"):
        return digest(world.objects[operation.source])
    if operation.kind == "read_end":  # compared with no checksum
        size = len(world.objects[operation.source])
        return str(size - size // 2)
    if operation.kind == "list":
        return ",".join(sorted(name.partition("/")[2] for name in _below(world.objects, operation.source)))
    if operation.kind == "exists":
        return str(operation.source in world.objects)
    return None


def _choices(world: World, kind: str) -> tuple[Sequence[str], Sequence[str]]:
    """The sources and targets that an operation of this kind may have."""
    if kind in COPIES:
        contents = getattr(world, COPIES[kind].source)
        return (_directories(contents), DIRECTORIES) if COPIES[kind].tree else (sorted(contents), NAMES)
    if kind in OF_ANY_NAME:
        return NAMES, ("",)
    return _directories(world.objects) if kind in OF_DIRECTORIES else sorted(world.objects), ("",)


def _directories(contents: Contents) -> list[str]:
    return sorted({name.partition("/")[0] for name in contents})


def operations(chance: random.Random, world: World, count: int) -> list[Operation]:
    """Operations that succeed one after the other, if nothing fails."""
    chosen: list[Operation] = []
    while len(chosen) < count:
        kind = chance.choice(KINDS)
        sources, targets = _choices(world, kind)
        source, target = chance.choice([*sources, ""]), chance.choice(targets)
        size = chance.choice([0, 1, 1000, 300_000, 6 * MIB + 1])
        operation = Operation(kind, source, target, chance.randrange(1 << 30), size)
        if not source or source == target:
            continue
        after_it = after(world, operation)
        if sum(map(len, after_it.objects.values())) > 60 * MIB:
            operation = operation._replace(size=min(operation.size, 1000))
            after_it = after(world, operation)
        world = after_it
        chosen.append(operation)
    return chosen


def problems(before: World, doubtful: Operation | None, actual: World) -> list[str]:
    """Returns the problems, if `doubtful` was begun, and failed or was killed."""
    wrong = []
    whole = before if doubtful is None else after(before, doubtful)
    for place in ("objects", "files"):
        first, second, now = (getattr(world, place) for world in (before, whole, actual))
        for name in sorted({*first, *second, *now}):
            if now.get(name) not in (first.get(name), second.get(name)):
                wrong.append(f"{place}: {name} is {_said(now.get(name))}, after {doubtful}")
    if doubtful is not None and doubtful.kind in COPIES and COPIES[doubtful.kind].moves:
        kept = {*actual.objects.values(), *actual.files.values()}
        wrong += [
            f"{name} is lost, after {doubtful}"
            for name, content in {**before.objects, **before.files}.items()
            if content not in kept and content in {*whole.objects.values(), *whole.files.values()}
        ]
    return wrong


def _said(content: bytes | None) -> str:
    return "missing" if content is None else f"another one, of {len(content)} bytes"
