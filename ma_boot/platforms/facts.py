"""What a platform says about a job: values with their sources, and what contradicts itself."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple


class Fact(NamedTuple):
    """A value as text, and where it is from: the name of a variable or a file, or how it was computed."""

    value: str
    source: str


# By what they are about: "job", "node" (its number), "nodes", "devices" (of this node), "master", "port",
# "hosts" (of all nodes, with commas), "pod", "uid", "host" (the address of the server), "addresses", "table",
# "schedules" (how often the job was started, this time included), "part" (only if "nodes" may be the number
# of a part of the job).
Facts = Dict[str, Fact]


class Around(NamedTuple):
    """What there is around a node: its variables, its host name, and what was found on the machine.

    `host_files` are the names in Volcano's files of hosts (`/etc/volcano/<task>.host`) by task; `tables` the
    places of rank tables whose directories exist; `devices` the physical numbers of the cards.
    """

    environ: Mapping[str, str]
    hostname: str
    host_files: Mapping[str, Tuple[str, ...]] = {}
    tables: Tuple[str, ...] = ()
    devices: FrozenSet[int] = frozenset()

    def given(self, *names: str) -> Optional[Fact]:
        """The first of these variables that is set."""
        for name in names:
            if self.environ.get(name, "").strip():
                return Fact(self.environ[name].strip(), name)
        return None

    def number(self, name: str, problems: List[str], lowest: int = 0) -> Optional[int]:
        """The variable as a number, None if it is not set; an invalid one is added to `problems`."""
        found = self.given(name)
        if found is None:
            return None
        if found.value.isascii() and found.value.isdecimal() and int(found.value) >= lowest:
            return int(found.value)
        problems.append(f"{name} is {found.value!r}: expected an integer of at least {lowest}")
        return None


def add(facts: Facts, what: str, found: Optional[Fact], problems: List[str]) -> None:
    """Adds what was found, unless it is there; another value for it is a problem that names both sources."""
    if found is None:
        return
    before = facts.setdefault(what, found)
    if before.value != found.value:
        problems.append(
            f"{before.source} says that {what} is {before.value}, {found.source} that it is {found.value}"
        )


def addresses_in(around: Around, *names: str) -> Optional[Fact]:
    """All that these variables say, with commas."""
    found = [fact for fact in map(around.given, names) if fact is not None]
    if not found:
        return None
    return Fact(",".join(fact.value for fact in found), ", ".join(fact.source for fact in found))


def nodes_of(around: Around, world: str, local: str, problems: List[str]) -> Optional[Fact]:
    """The number of nodes from the number of all ranks and of those on a node; None without both."""
    count, each = around.number(world, problems, 1), around.number(local, problems, 1)
    if count is None or each is None:
        return None
    if count % each:
        problems.append(f"{world} is {count}, which is no multiple of {local}, {each}")
    return Fact(str(count // each), f"{world} / {local}")
