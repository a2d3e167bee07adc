"""What a platform tells a node of its job, with the source of each value, and how variables are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Around(NamedTuple):
    """What there is around a node: its variables, its host name, and what is on the machine.

    `host_files` are the names in Volcano's files of hosts (`/etc/volcano/<task>.host`) by task; `tables` the
    places of rank tables whose directories exist; `devices` the physical numbers of the cards.
    """

    environ: Mapping[str, str]
    hostname: str
    host_files: Mapping[str, tuple[str, ...]] = {}
    tables: tuple[str, ...] = ()
    devices: frozenset[int] = frozenset()


class NodePlace(NamedTuple):
    """A node's place in its job; None and empty are what the platform does not tell.

    `job` is the job's name as in those of its pods; `node` the number of this node among `nodes`, which are
    those of a part of the job if `is_part`; `devices` how many cards this node has; `hosts` the names of all
    nodes in their order; `pod` and `uid` are the platform's names for this container, `host` the address of
    its server, `addresses` its own; `master` and `port` are where rank 0 listens; `table` is the file of the
    rank table; `schedules` is how often the job was started, this time included. `sources` has the variable
    or file of each value, by field.
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
        """This place, with the values of the other one where it has none."""
        known = self.known()
        more: dict[str, Any] = {name: value for name, value in other.known().items() if name not in known}
        if "nodes" in more:
            more["is_part"] = other.is_part
        sources = {name: other.sources[name] for name in more if name in other.sources}
        return self._replace(**more, sources={**self.sources, **sources})

    def known(self) -> dict[str, Any]:
        """The values that the platform tells, by field."""
        values = self._asdict()
        return {
            name: value
            for name, value in values.items()
            if value not in (None, ()) and name not in ("is_part", "sources")
        }


class VariableReader:
    """Reads the variables of one platform; what is wrong with them is added to `problems`.

    Two variables that give a field two values are a problem that names both.
    """

    def __init__(self, around: Around, problems: list[str]) -> None:
        self.around = around
        self.problems = problems
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}

    def __contains__(self, field: str) -> bool:
        return field in self._values

    def name_of(self, *names: str) -> str | None:
        """The first of these variables that is set."""
        return next((name for name in names if self.around.environ.get(name, "").strip()), None)

    def value(self, *names: str) -> str | None:
        """The value of the first of these variables that is set."""
        name = self.name_of(*names)
        return None if name is None else self.around.environ[name].strip()

    def number(self, name: str, lowest: int = 0) -> int | None:
        """The variable as a number; None if it is not set or invalid."""
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
        """The field is the value of the first of these variables that is set."""
        self.put(field, self.value(*names), self.name_of(*names) or "")

    def count(self, field: str, *names: str, lowest: int = 0) -> None:
        """The field is the number of the first of these variables that is set."""
        name = self.name_of(*names)
        if name is not None:
            self.put(field, self.number(name, lowest), name)

    def drop(self, *fields: str) -> None:
        """Forgets values that are worth nothing without others."""
        for field in fields:
            self._values.pop(field, None)
            self._sources.pop(field, None)

    def place(self) -> NodePlace:
        """What was read; an address of IPv6 is without its brackets."""
        place = NodePlace(**self._values, sources=dict(self._sources))
        hosts = tuple(host.strip("[]") for host in place.hosts)
        return place._replace(hosts=hosts, master=place.master and place.master.strip("[]"))
