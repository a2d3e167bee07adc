"""Place of a node in its job, with the source of each value; and the reader of a platform's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Surroundings(NamedTuple):
    """Surroundings of a node: its variables, its host name, and facts about the machine.

    `host_files` are the names in Volcano's files of hosts (`/etc/volcano/<task>.host`) by task; `tables` are
    paths of rank tables whose directories exist; `devices` are the physical numbers of the cards.
    """

    environ: Mapping[str, str]
    hostname: str
    host_files: Mapping[str, tuple[str, ...]] = {}
    tables: tuple[str, ...] = ()
    devices: frozenset[int] = frozenset()


class NodePlace(NamedTuple):
    """A node's place in its job; values that the platform does not provide are None or empty.

    `job` is the name of the job, as in the names of its pods. `node` is the number of this node, `nodes` the
    number of nodes, of a part of the job if `is_part`. `devices` is the number of cards of this node. `hosts`
    are the names of all nodes in their order. `pod` and `uid` are the platform's names for this container,
    `host` is the address of its server, `addresses` are its own. Rank 0 listens at `master` and `port`.
    `table` is the file of the rank table. `schedules` is the number of starts of the job, with this one.
    `sources` has the variable or file of each value, by field.
    """

    job: str | None = None
    node: int | None = None
    nodes: int | None = None
    is_part: bool = False
    devices: int | None = None
    hosts: tuple[str, ...] = ()
    pod: str | None = None
    uid: str | None = None
    host: str | None = None
    addresses: tuple[str, ...] = ()
    master: str | None = None
    port: int | None = None
    table: str | None = None
    schedules: int | None = None
    sources: Mapping[str, str] = {}

    def completed_by(self, other: NodePlace) -> NodePlace:
        """Returns this place, with the values of the other one for those that it lacks."""
        known = self.known()
        more: dict[str, Any] = {name: value for name, value in other.known().items() if name not in known}
        if "nodes" in more:
            more["is_part"] = other.is_part
        sources = {name: other.sources[name] for name in more if name in other.sources}
        return self._replace(**more, sources={**self.sources, **sources})

    def known(self) -> dict[str, Any]:
        """Returns the values that the platform provides, by field."""
        values = self._asdict()
        return {
            name: value
            for name, value in values.items()
            if value not in (None, ()) and name not in ("is_part", "sources")
        }


class VariableReader:
    """Reads the variables of one platform into fields of a place, and adds `problems` with them.

    Two variables with different values for one field are a problem that names both.
    """

    def __init__(self, around: Surroundings, problems: list[str]) -> None:
        self.around = around
        self.problems = problems
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}

    def __contains__(self, field: str) -> bool:
        return field in self._values

    def name_of(self, *names: str) -> str | None:
        """Returns the first of these variables that is set."""
        return next((name for name in names if self.around.environ.get(name, "").strip()), None)

    def value(self, *names: str) -> str | None:
        """Returns the value of the first of these variables that is set."""
        name = self.name_of(*names)
        return None if name is None else self.around.environ[name].strip()

    def number(self, name: str, lowest: int = 0) -> int | None:
        """Returns the variable as a number; None if it is not set or invalid."""
        text = self.value(name)
        if text is None:
            return None
        if text.isascii() and text.isdecimal() and int(text) >= lowest:
            return int(text)
        self.problems.append(f"{name} is {text!r}: expected an integer of at least {lowest}")
        return None

    def put(self, field: str, value: Any, source: str) -> None:
        """Sets a field of the place, unless the value is None."""
        if value is None:
            return
        before = self._values.setdefault(field, value)
        source_before = self._sources.setdefault(field, source)
        if before != value:
            self.problems.append(
                f"{source_before} says that {field} is {before}, {source} that it is {value}"
            )

    def text(self, field: str, *names: str) -> None:
        """Sets a field to the value of the first of these variables that is set."""
        self.put(field, self.value(*names), self.name_of(*names) or "")

    def count(self, field: str, *names: str, lowest: int = 0) -> None:
        """Sets a field to the number in the first of these variables that is set."""
        name = self.name_of(*names)
        if name is not None:
            self.put(field, self.number(name, lowest), name)

    def drop(self, *fields: str) -> None:
        """Drops values that mean nothing without others."""
        for field in fields:
            self._values.pop(field, None)
            self._sources.pop(field, None)

    def place(self) -> NodePlace:
        """Returns the place; an address of IPv6 has no brackets."""
        place = NodePlace(**self._values, sources=dict(self._sources))
        hosts = tuple(host.strip("[]") for host in place.hosts)
        return place._replace(hosts=hosts, master=place.master and place.master.strip("[]"))
