"""Manifests: what a node says of its part of a set, once all of it is in OBS. Pure.

Whoever may write to the bucket may write a manifest, so nothing in it is trusted: paths stay below the
output, keys below their attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.keys import OWN, Attempt, PartKey, SetName
from path_mapping.errors import printable
from path_mapping.localfs.names import name_problem

FORMAT = 1


class SetFile(NamedTuple):
    """A file of a set: its path below the output, its key below the output's prefix, and its content.

    `size` is in bytes, `crc64` of the content, `etag` that of the object, without quotes.
    """

    path: str
    key: str
    size: int
    crc64: int
    etag: str


@dataclass(frozen=True)
class Part:
    """The part of one saver, of the index `saver` of so many (`of`); `files` may be empty if that was said.

    `node` is one of `nodes`, `ranks` are those of the node, `world` the number of all of them; `layout` is
    the name of the layout, `resumed_from` the set from which the attempt went on, None if it began anew.
    `step` is how the layout writes it; `job` is the identity of the job, `start` that of this start of it.
    `written` is the time of the node, for people only.
    """

    name: SetName
    step: str
    node: int
    nodes: int
    layout: str
    files: tuple[SetFile, ...]
    world: int
    saver: int = 0
    of: int = 1
    ranks: tuple[int, ...] = ()
    resumed_from: SetName | None = None
    job: str = ""
    start: str = ""
    written: str = ""

    @property
    def key(self) -> PartKey:
        """What its key tells."""
        return PartKey(self.name, self.saver, self.of, not self.files)

    def document(self) -> dict[str, Any]:
        """The manifest."""
        return {
            "format": FORMAT,
            **_named(self.name),
            "step_name": self.step,
            "node": self.node,
            "nodes": self.nodes,
            "saver": self.saver,
            "savers": self.of,
            "job": self.job,
            "start": self.start,
            "world": self.world,
            "ranks": list(self.ranks),
            "layout": self.layout,
            "resumed_from": _named(self.resumed_from) if self.resumed_from else None,
            "written": self.written,
            "files": [
                {**file._asdict(), "crc64": f"{file.crc64:016x}"} for file in self.files
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class CheckpointSet:
    """A set that counts: the parts of all its nodes, in their order."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"step {self.step} of {self.name.attempt}"

    @property
    def name(self) -> SetName:
        """Its attempt and step."""
        return self.parts[0].name

    @property
    def step(self) -> str:
        """Its step, as its layout writes it."""
        return self.parts[0].step

    @property
    def world(self) -> int:
        """The number of ranks that wrote it."""
        return self.parts[0].world

    @property
    def nodes(self) -> int:
        """The number of nodes of the job that wrote it."""
        return self.parts[0].nodes

    @property
    def layout(self) -> str:
        """The name of the layout of the first node that has files."""
        return next((part.layout for part in self.parts if part.files), self.parts[0].layout)

    @property
    def files(self) -> int:
        """The number of its files."""
        return sum(len(part.files) for part in self.parts)

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return sum(file.size for part in self.parts for file in part.files)

    def document(self) -> list[dict[str, Any]]:
        """All its manifests."""
        return [part.document() for part in self.parts]

    def files_of(self, node: int | None) -> tuple[SetFile, ...]:
        """The files that a node has, in the order of their paths; of all nodes for None.

        Of a path that several nodes have, the first node's.
        """
        files: dict[str, SetFile] = {}
        for part in self.parts:
            for file in part.files if node in (None, part.node) else ():
                files.setdefault(file.path, file)
        return tuple(files[path] for path in sorted(files))


def _named(name: SetName) -> dict[str, Any]:
    kind = {"version": name.version, "said": name.by_word}
    return {"attempt": str(name.attempt), "step": name.step, **kind}


def read_name(fields: Mapping[str, Any]) -> SetName:
    """The set that these fields name; raises `ValueError`, `KeyError` or `TypeError`."""
    step = fields["step"]
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"step: found {step!r}, expected a number")
    return SetName(Attempt.parse(fields["attempt"]), step, int(fields["version"]), fields["said"] is True)


def read_part(document: Any) -> Part:
    """The manifest in a document.

    Raises:
        CheckpointDamaged: it is no manifest.
    """
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format: found {document['format']!r}, expected {FORMAT}")
        name, resumed = read_name(document), document.get("resumed_from")
        node, nodes = int(document["node"]), int(document["nodes"])
        if not 0 <= node < nodes:
            raise ValueError(f"found node {node} of {nodes}")
        return Part(
            name, str(document["step_name"]), node, nodes, str(document["layout"]),
            tuple(_read_file(file, name.attempt) for file in document["files"]),
            int(document["world"]), int(document["saver"]), int(document["savers"]),
            tuple(map(int, document["ranks"])), read_name(resumed) if resumed else None,
            str(document.get("job", "")), str(document.get("start", "")), str(document.get("written", "")),
        )  # fmt: skip
    except KeyError as error:
        raise CheckpointDamaged(f"a manifest without {error}") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:  # the last one: `Infinity`
        raise CheckpointDamaged(f"a damaged manifest: {error}") from None


def _read_file(document: Mapping[str, Any], attempt: Attempt) -> SetFile:
    path, key = str(document["path"]), str(document["key"])
    problem = name_problem(path) or name_problem(key)
    if problem is None and (path.split("/")[0] == OWN or not key.startswith(f"{attempt}/")):
        problem = "a place that is not the set's"
    if problem:
        raise ValueError(f"{printable(path)} ({printable(key)}): {problem}")
    size = document["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{printable(path)}: found the size {size!r}, expected a number of bytes")
    return SetFile(path, key, size, int(document["crc64"], 16), str(document["etag"]))


def whole_set(parts: Sequence[Part]) -> CheckpointSet:
    """The set that the manifests of all savers make.

    Raises:
        CheckpointDamaged: they are of other sets or starts, or not those of all savers, or none has files.
    """
    first = parts[0] if parts else None
    if first is None or any(
        (part.name, part.of, part.start) != (first.name, first.of, first.start) for part in parts
    ):
        raise CheckpointDamaged("a manifest of another set has its key")
    by_saver = {part.saver: part for part in parts}
    if sorted(by_saver) != list(range(first.of)):
        raise CheckpointDamaged("not the manifests of all savers")
    if not any(part.files for part in parts):
        raise CheckpointDamaged("no part has files")
    return CheckpointSet(tuple(by_saver[saver] for saver in range(first.of)))
