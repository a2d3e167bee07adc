"""Manifests: a saver's list of the files of its part, written once all of them are in OBS. Pure.

Any user with write access to the bucket may write a manifest, so its contents are not trusted: paths must
stay below the output, and keys below their attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import OWN, Attempt, CheckpointName, PartKey
from path_mapping.errors import printable
from path_mapping.localfs.names import name_problem

FORMAT = 1


class CheckpointFile(NamedTuple):
    """A file of a checkpoint: its path below the output, and its key below the output's prefix.

    `size` is in bytes, `crc64` is of the contents, `etag` is that of the object, without quotes.
    """

    path: str
    key: str
    size: int
    crc64: int
    etag: str


@dataclass(frozen=True)
class Part:
    """The part of one saver, of index `saver` out of `of`, counted from 0.

    `files` may be empty only for an explicit checkpoint. `step` is the step as the layout writes it; `layout`
    is the name of the layout; `resumed_from` is the checkpoint from which the attempt resumed, if any.
    `written` is the time by the node's clock, for people only.
    """

    name: CheckpointName
    step: str
    member: JobMember
    layout: str
    files: tuple[CheckpointFile, ...]
    saver: int = 0
    of: int = 1
    resumed_from: CheckpointName | None = None
    written: str = ""

    @property
    def key(self) -> PartKey:
        """The contents of its key."""
        return PartKey(self.name, self.saver, self.of, not self.files)

    def document(self) -> dict[str, Any]:
        """Returns the manifest."""
        member = self.member
        return {
            "format": FORMAT,
            **_name_fields(self.name),
            "step_name": self.step,
            "node": member.node,
            "nodes": member.nodes,
            "saver": self.saver,
            "savers": self.of,
            "job": member.job,
            "start": member.start,
            "world": member.world_size,
            "ranks": list(member.ranks),
            "layout": self.layout,
            "resumed_from": _name_fields(self.resumed_from) if self.resumed_from else None,
            "written": self.written,
            "files": [
                {**file._asdict(), "crc64": f"{file.crc64:016x}"} for file in self.files
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: the parts of all savers, in their order."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"step {self.step} of {self.name.attempt}"

    @property
    def name(self) -> CheckpointName:
        """Its attempt, step and version."""
        return self.parts[0].name

    @property
    def step(self) -> str:
        """The step as the layout writes it."""
        return self.parts[0].step

    @property
    def world_size(self) -> int:
        """Number of ranks of the job that wrote it."""
        return self.parts[0].member.world_size

    @property
    def nodes(self) -> int:
        """Number of nodes of the job that wrote it."""
        return self.parts[0].member.nodes

    @property
    def layout(self) -> str:
        """Name of the layout of the first node that has files."""
        return next((part.layout for part in self.parts if part.files), self.parts[0].layout)

    @property
    def files(self) -> int:
        """Number of files."""
        return sum(len(part.files) for part in self.parts)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(file.size for part in self.parts for file in part.files)

    def document(self) -> list[dict[str, Any]]:
        """Returns all manifests."""
        return [part.document() for part in self.parts]

    def files_of(self, node: int | None) -> tuple[CheckpointFile, ...]:
        """Returns the files of a node, or of all nodes for None, sorted by path.

        Of a path that several nodes have, the file of the first of them.
        """
        files: dict[str, CheckpointFile] = {}
        for part in self.parts:
            for file in part.files if node in (None, part.member.node) else ():
                files.setdefault(file.path, file)
        return tuple(files[path] for path in sorted(files))


def _name_fields(name: CheckpointName) -> dict[str, Any]:
    kind = {"version": name.version, "explicit": name.is_explicit}
    return {"attempt": str(name.attempt), "step": name.step, **kind}


def read_name(fields: Mapping[str, Any]) -> CheckpointName:
    """Reads the name of a checkpoint; raises `ValueError`, `KeyError` or `TypeError`."""
    step, version = fields["step"], int(fields["version"])
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"step: found {step!r}, expected a number")
    return CheckpointName(Attempt.parse(fields["attempt"]), step, version, fields["explicit"] is True)


def read_part(document: Any) -> Part:
    """Reads a manifest.

    Raises:
        CheckpointDamaged: the document is no valid manifest.
    """
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format: found {document['format']!r}, expected {FORMAT}")
        name, resumed = read_name(document), document.get("resumed_from")
        member = _read_member(document)
        return Part(
            name=name,
            step=str(document["step_name"]),
            member=member,
            layout=str(document["layout"]),
            files=tuple(_read_file(file, name.attempt) for file in document["files"]),
            saver=int(document["saver"]),
            of=int(document["savers"]),
            resumed_from=read_name(resumed) if resumed else None,
            written=str(document.get("written", "")),
        )
    except KeyError as error:
        raise CheckpointDamaged(f"a manifest without {error}") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:  # the last one: `Infinity`
        raise CheckpointDamaged(f"a damaged manifest: {error}") from None


def _read_member(document: Mapping[str, Any]) -> JobMember:
    node, nodes = int(document["node"]), int(document["nodes"])
    if not 0 <= node < nodes:
        raise ValueError(f"found node {node} of {nodes}")
    return JobMember(
        node,
        nodes,
        ranks=tuple(map(int, document["ranks"])),
        world_size=int(document["world"]),
        job=str(document.get("job", "")),
        start=str(document.get("start", "")),
    )


def _read_file(document: Mapping[str, Any], attempt: Attempt) -> CheckpointFile:
    path, key = str(document["path"]), str(document["key"])
    problem = name_problem(path) or name_problem(key)
    if problem is None and (path.split("/")[0] == OWN or not key.startswith(f"{attempt}/")):
        problem = "not a place of this checkpoint"
    if problem:
        raise ValueError(f"{printable(path)} ({printable(key)}): {problem}")
    size = document["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{printable(path)}: found the size {size!r}, expected a number of bytes")
    return CheckpointFile(path, key, size, int(document["crc64"], 16), str(document["etag"]))


def assemble_checkpoint(parts: Sequence[Part]) -> Checkpoint:
    """Assembles a checkpoint from the manifests of all savers.

    Raises:
        CheckpointDamaged: they are of several checkpoints or starts, or one is missing, or none has files.
    """
    first = parts[0] if parts else None
    if first is None or any(
        (part.name, part.of, part.member.start) != (first.name, first.of, first.member.start)
        for part in parts
    ):
        raise CheckpointDamaged("a manifest of another checkpoint has its key")
    by_saver = {part.saver: part for part in parts}
    if sorted(by_saver) != list(range(first.of)):
        raise CheckpointDamaged("not the manifests of all savers")
    if not any(part.files for part in parts):
        raise CheckpointDamaged("no part has files")
    return Checkpoint(tuple(by_saver[saver] for saver in range(first.of)))
