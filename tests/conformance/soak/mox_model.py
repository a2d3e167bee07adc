"""Operations of `path_mapping.file`, and what they do. Pure; `program` performs them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from tests.conformance.soak.model import digest

MIB = 1 << 20
DIRECTORIES = ("d0", "d1", "d2")
NAMES = tuple(f"{directory}/f{number}" for directory in DIRECTORIES for number in range(3))
Contents = Mapping[str, bytes]


class Operation(NamedTuple):
    """One call: its kind, one or two names or directories, and the content that it writes."""

    kind: str
    one: str
    other: str = ""
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


def _below(contents: Contents, directory: str) -> Dict[str, bytes]:
    return {name: content for name, content in contents.items() if name.partition("/")[0] == directory}


def _moved(contents: Contents, one: str, other: str) -> Dict[str, bytes]:
    return {f"{other}/{name.partition('/')[2]}": content for name, content in _below(contents, one).items()}


def _without(contents: Contents, gone: str) -> Dict[str, bytes]:
    """Without this file, or all below this directory."""
    return {
        name: content for name, content in contents.items() if name != gone and name.partition("/")[0] != gone
    }


def after(world: World, operation: Operation) -> World:
    """The world after the operation has succeeded."""
    effect = EFFECTS.get(operation.kind)
    return world if effect is None else effect(world.objects, world.files, operation)


def _with(contents: Contents, name: str, content: bytes) -> Contents:
    return {**contents, name: content}


EFFECTS: Mapping[str, Callable[[Contents, Contents, Operation], World]] = {
    "write": lambda there, here, did: World(_with(there, did.one, did.content), here),
    "dropped": lambda there, here, did: World(_with(there, did.one, did.content), here),
    "append": lambda there, here, did: World(
        _with(there, did.one, there.get(did.one, b"") + did.content), here
    ),
    "save": lambda there, here, did: World(there, _with(here, did.one, did.content)),
    "copy_up": lambda there, here, did: World(_with(there, did.other, here[did.one]), here),
    "copy_down": lambda there, here, did: World(there, _with(here, did.other, there[did.one])),
    "copy_inside": lambda there, here, did: World(_with(there, did.other, there[did.one]), here),
    "tree_up": lambda there, here, did: World({**there, **_moved(here, did.one, did.other)}, here),
    "tree_down": lambda there, here, did: World(there, {**here, **_moved(there, did.one, did.other)}),
    "rename": lambda there, here, did: World(
        _with(_without(there, did.one), did.other, there[did.one]), here
    ),
    "move_inside": lambda there, here, did: World(
        {**_without(there, did.one), **_moved(there, did.one, did.other)}, here
    ),
    "move_up": lambda there, here, did: World(
        {**there, **_moved(here, did.one, did.other)}, _without(here, did.one)
    ),
    "move_down": lambda there, here, did: World(
        _without(there, did.one), {**here, **_moved(there, did.one, did.other)}
    ),
    "remove": lambda there, here, did: World(_without(there, did.one), here),
    "remove_tree": lambda there, here, did: World(_without(there, did.one), here),
}


def answer(world: World, operation: Operation) -> Optional[str]:
    """What an operation that changes nothing returns."""
    if operation.kind in ("read", "read_pieces"):
        return digest(world.objects[operation.one])
    if operation.kind == "read_end":  # compared with no checksum
        size = len(world.objects[operation.one])
        return str(size - size // 2)
    if operation.kind == "list":
        return ",".join(sorted(name.partition("/")[2] for name in _below(world.objects, operation.one)))
    if operation.kind == "exists":
        return str(operation.one in world.objects)
    return None


KINDS: Mapping[str, Callable[[World], Tuple[List[str], List[str]]]] = {
    "write": lambda world: (list(NAMES), [""]),
    "dropped": lambda world: (list(NAMES), [""]),
    "aborted": lambda world: (list(NAMES), [""]),
    "append": lambda world: (list(NAMES), [""]),
    "save": lambda world: (list(NAMES), [""]),
    "copy_up": lambda world: (sorted(world.files), list(NAMES)),
    "copy_down": lambda world: (sorted(world.objects), list(NAMES)),
    "copy_inside": lambda world: (sorted(world.objects), list(NAMES)),
    "tree_up": lambda world: (_directories(world.files), list(DIRECTORIES)),
    "tree_down": lambda world: (_directories(world.objects), list(DIRECTORIES)),
    "rename": lambda world: (sorted(world.objects), list(NAMES)),
    "move_inside": lambda world: (_directories(world.objects), list(DIRECTORIES)),
    "move_up": lambda world: (_directories(world.files), list(DIRECTORIES)),
    "move_down": lambda world: (_directories(world.objects), list(DIRECTORIES)),
    "remove": lambda world: (sorted(world.objects), [""]),
    "remove_tree": lambda world: (_directories(world.objects), [""]),
    "read": lambda world: (sorted(world.objects), [""]),
    "read_pieces": lambda world: (sorted(world.objects), [""]),
    "read_end": lambda world: (sorted(world.objects), [""]),
    "list": lambda world: (_directories(world.objects), [""]),
    "exists": lambda world: (list(NAMES), [""]),
}


def _directories(contents: Contents) -> List[str]:
    return sorted({name.partition("/")[0] for name in contents})


def operations(chance: random.Random, world: World, count: int) -> List[Operation]:
    """Operations that succeed one after the other, if nothing fails."""
    chosen: List[Operation] = []
    while len(chosen) < count:
        kind = chance.choice(list(KINDS))
        ones, others = KINDS[kind](world)
        one, other = chance.choice([*ones, ""]), chance.choice(others)
        size = chance.choice([0, 1, 1000, 300_000, 6 * MIB + 1])
        operation = Operation(kind, one, other, chance.randrange(1 << 30), size)
        if not one or one == other:
            continue
        after_it = after(world, operation)
        if sum(map(len, after_it.objects.values())) > 60 * MIB:
            operation = _smaller(operation)
            after_it = after(world, operation)
        world = after_it
        chosen.append(operation)
    return chosen


def _smaller(operation: Operation) -> Operation:
    return operation._replace(size=min(operation.size, 1000))


def problems(before: World, doubtful: Optional[Operation], found: World) -> List[str]:
    """What is wrong in the world, if `doubtful` was begun, and failed or was killed."""
    wrong = []
    whole = before if doubtful is None else after(before, doubtful)
    for place in ("objects", "files"):
        one, other, now = (getattr(world, place) for world in (before, whole, found))
        for name in sorted({*one, *other, *now}):
            if now.get(name) not in (one.get(name), other.get(name)):
                wrong.append(f"{place}: {name} is {_said(now.get(name))}, after {doubtful}")
    if doubtful is not None and doubtful.kind in ("rename", "move_inside", "move_up", "move_down"):
        kept = {*found.objects.values(), *found.files.values()}
        wrong += [
            f"{name} is lost, after {doubtful}"
            for name, content in {**before.objects, **before.files}.items()
            if content not in kept and content in {*whole.objects.values(), *whole.files.values()}
        ]
    return wrong


def _said(content: Optional[bytes]) -> str:
    return "missing" if content is None else f"another one, of {len(content)} bytes"
